/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads - whether posting and polling on different QPs and CQs scale with threads.
 *
 *     threads DEVICE THREADS
 *
 * A second process registers memory and sleeps. Each thread WRITEs 8 bytes there, on a QP and a CQ
 * of its own, DEPTH at a time. Prints the rate of all threads together, in millions a second: the
 * median of some rounds.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rc.h"

#define THREADS_MAX 16
#define DEPTH	    64
#define ROUNDS	    5
#define ROUND_MS    200
#define REGION	    (64u << 10)

struct shared {
	pthread_barrier_t barrier;
	union ibv_gid gid;
	uint32_t qpn[2][THREADS_MAX];
	uint64_t addr;
	uint32_t rkey;
};

struct end {
	_Alignas(128) struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint64_t *buffer;
	struct ibv_mr *mr;
	unsigned number;
	uint64_t written;
};

static struct shared *shared;
static int threads;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct end ends[THREADS_MAX];
static _Atomic bool stop;
static pthread_barrier_t round_barrier;

static void fail(const char *what)
{
	fprintf(stderr, "threads: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_device(const char *name)
{
	context = rc_open_device(name);
	pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd)
		fail(name);
}

static void make_end(struct end *end, int side)
{
	end->number = (unsigned)(end - ends);
	end->cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	end->qp = end->cq ? rc_create_qp(pd, end->cq, DEPTH) : NULL;
	end->buffer = aligned_alloc(4096, 4096);
	end->mr = end->buffer ? ibv_reg_mr(pd, end->buffer, 4096, 0) : NULL;
	if (!end->qp || !end->mr)
		fail("a QP");
	shared->qpn[side][end->number] = end->qp->qp_num;
}

static void connect_end(struct end *end, int side)
{
	const struct rc_peer peer = { shared->gid, shared->qpn[!side][end->number] };

	errno = rc_connect(end->qp, 0, &peer);
	if (errno)
		fail("ibv_modify_qp");
}

static void make_all(const char *device, int side)
{
	open_device(device);
	if (!side && ibv_query_gid(context, 1, 0, &shared->gid))
		fail("ibv_query_gid");
	for (int i = 0; i < threads; i++)
		make_end(&ends[i], side);
	pthread_barrier_wait(&shared->barrier);
	for (int i = 0; i < threads; i++)
		connect_end(&ends[i], side);
}

static void write_one(struct end *end)
{
	struct ibv_sge sge = { (uintptr_t)end->buffer, 8, end->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { shared->addr + (uint64_t)end->number * 4096, shared->rkey },
	};

	errno = ibv_post_send(end->qp, &wr, &bad);
	if (errno)
		fail("ibv_post_send");
}

static unsigned take_completions(struct end *end)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(end->cq, 16, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			fail(ibv_wc_status_str(wc[i].status));
	end->written += (unsigned)n;
	return (unsigned)n;
}

static void *write_all(void *arg)
{
	struct end *end = arg;

	for (int round = 0; round < ROUNDS; round++) {
		unsigned outstanding = 0;

		pthread_barrier_wait(&round_barrier);
		while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
			for (; outstanding < DEPTH; outstanding++)
				write_one(end);
			outstanding -= take_completions(end);
		}
		while (outstanding)
			outstanding -= take_completions(end);
		pthread_barrier_wait(&round_barrier);
	}
	return NULL;
}

static uint64_t written(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < threads; i++)
		sum += ends[i].written;
	return sum;
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static void measure(void)
{
	const struct timespec pause = { .tv_nsec = ROUND_MS * 1000000l };
	pthread_t ids[THREADS_MAX];
	double rates[ROUNDS];

	pthread_barrier_init(&round_barrier, NULL, (unsigned)threads + 1);
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, write_all, &ends[i]);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t before = written();

		atomic_store(&stop, false);
		pthread_barrier_wait(&round_barrier);
		nanosleep(&pause, NULL);
		atomic_store(&stop, true);
		pthread_barrier_wait(&round_barrier);
		rates[round] = (double)(written() - before) / ROUND_MS / 1000;
	}
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	qsort(rates, ROUNDS, sizeof(*rates), compare);
	printf("%.2f\n", rates[ROUNDS / 2]);
}

static void be_target(const char *device)
{
	void *region =
		mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	make_all(device, 1);
	mr = region == MAP_FAILED ? NULL
				  : ibv_reg_mr(pd, region, REGION,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		fail("ibv_reg_mr");
	shared->addr = (uintptr_t)region;
	shared->rkey = mr->rkey;
	pthread_barrier_wait(&shared->barrier);
	pthread_barrier_wait(&shared->barrier);
}

int main(int argc, char **argv)
{
	pthread_barrierattr_t attr;
	pid_t child;

	threads = argc == 3 ? atoi(argv[2]) : 0;
	if (threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: threads DEVICE THREADS\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		fail("mmap");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, 2);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		be_target(argv[1]);
		return 0;
	}
	make_all(argv[1], 0);
	pthread_barrier_wait(&shared->barrier);
	measure();
	fflush(stdout);
	pthread_barrier_wait(&shared->barrier);
	waitpid(child, NULL, 0);
	return 0;
}
