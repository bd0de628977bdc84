/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams - WRITEs of 64 KiB between hosts by several threads of one process, each with a device, a
 * CQ and a QP of its own.
 *
 *     streams target DEVICE GID_INDEX ADDRESS PORT
 *     streams polls|sleeps DEVICE CPU GID_INDEX ADDRESS PORT [CPU GID_INDEX ADDRESS PORT]...
 *
 * A target listens at a TCP address, registers memory for the one that connects, and sleeps. The
 * other program has a thread for each target, on that CPU. When there is nothing to do, each polls
 * its CQ or sleeps for an event.
 *
 * Prints, of half a second of all threads together: MiB/s that have completed, and the seconds of
 * processors that their process uses in each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cores.h"
#include "rc.h"

#define STREAMS_MAX 8
#define WORDS	    4 /* of the command line, a stream */
#define MESSAGE	    (64u << 10)
#define CHAIN	    16u /* WRITEs that are posted together; the last one is signaled */
#define CHAINS	    8u	/* outstanding */
#define WARM_UP_MS  200
#define RUN_MS	    500
#define SILENCE_S   30 /* after which an end gives up */

/* What the ends tell each other. */
struct introduction {
	struct rc_peer peer;
	uint32_t rkey;
	uint64_t addr;
};

struct stream {
	_Alignas(128) const char *device;
	int cpu;
	uint8_t gid_index;
	struct sockaddr_in address;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct introduction theirs;
	unsigned outstanding;	    /* chains */
	_Atomic uint64_t completed; /* chains */
};

static struct stream streams[STREAMS_MAX];
static unsigned count;
static pthread_barrier_t ready;
static _Atomic bool stop;
static bool sleeps;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "streams: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in address_of(const char *address, const char *port)
{
	struct sockaddr_in out = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	errno = EINVAL;
	if (inet_pton(AF_INET, address, &out.sin_addr) != 1)
		fail(address);
	return out;
}

static void make_end(struct stream *s)
{
	struct ibv_context *context = rc_open_device(s->device);
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	uint8_t *memory =
		mmap(NULL, MESSAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!pd || memory == MAP_FAILED)
		fail(s->device);
	s->channel = ibv_create_comp_channel(context);
	s->cq = s->channel ? ibv_create_cq(context, CHAINS, NULL, s->channel, 0) : NULL;
	s->qp = s->cq ? rc_create_qp(pd, s->cq, CHAIN * CHAINS) : NULL;
	s->mr = s->qp ? ibv_reg_mr(pd, memory, MESSAGE,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		      : NULL;
	if (!s->mr)
		fail("a QP");
}

static void connect_end(struct stream *s, int fd)
{
	struct introduction ours = { .peer.qpn = s->qp->qp_num,
				     .rkey = s->mr->rkey,
				     .addr = (uintptr_t)s->mr->addr };
	struct timeval limit = { .tv_sec = SILENCE_S };
	char byte = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (ibv_query_gid(s->qp->context, 1, s->gid_index, &ours.peer.gid))
		fail("ibv_query_gid");
	if (send(fd, &ours, sizeof(ours), MSG_NOSIGNAL) != sizeof(ours) ||
	    recv(fd, &s->theirs, sizeof(s->theirs), MSG_WAITALL) != sizeof(s->theirs))
		fail("the other end's introduction");
	errno = rc_connect(s->qp, s->gid_index, &s->theirs.peer);
	if (errno)
		fail("ibv_modify_qp");
	if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1)
		fail("the other end's QP");
}

/* Sleeps outside of verbs until the other end is gone. */
static int be_target(char **words)
{
	struct stream *s = &streams[0];
	struct sockaddr_in address = address_of(words[2], words[3]);
	int one = 1, fd, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char byte;

	s->device = words[0];
	s->gid_index = (uint8_t)atoi(words[1]);
	make_end(s);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1))
		fail("listen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail("accept");
	connect_end(s, fd);
	if (recv(fd, &byte, 1, 0) < 0)
		fail("the other end is silent");
	return 0;
}

static void post_chain(struct stream *s)
{
	struct ibv_sge sge = { (uintptr_t)s->mr->addr, MESSAGE, s->mr->lkey };
	struct ibv_send_wr chain[CHAIN], *bad;

	for (unsigned i = 0; i < CHAIN; i++)
		chain[i] = (struct ibv_send_wr){
			.next = i + 1 < CHAIN ? &chain[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i + 1 < CHAIN ? 0u : IBV_SEND_SIGNALED,
			.wr.rdma = { s->theirs.addr, s->theirs.rkey },
		};
	errno = ibv_post_send(s->qp, chain, &bad);
	if (errno)
		fail("ibv_post_send");
	s->outstanding++;
}

static bool take_completions(struct stream *s)
{
	struct ibv_wc wc[CHAINS];
	int n = ibv_poll_cq(s->cq, CHAINS, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS) {
			errno = EIO;
			fail(ibv_wc_status_str(wc[i].status));
		}
	if (n <= 0)
		return false;
	s->outstanding -= (unsigned)n;
	atomic_fetch_add_explicit(&s->completed, (unsigned)n, memory_order_relaxed);
	return true;
}

static void wait_for_completions(struct stream *s)
{
	struct ibv_cq *cq;
	void *context;

	while (!take_completions(s)) {
		if (!sleeps)
			continue;
		errno = ibv_req_notify_cq(s->cq, 0);
		if (errno)
			fail("ibv_req_notify_cq");
		if (take_completions(s))
			return;
		if (ibv_get_cq_event(s->channel, &cq, &context))
			fail("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
}

static void *write_all(void *arg)
{
	struct stream *s = arg;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cores_pin(s->cpu);
	if (connect(fd, (struct sockaddr *)&s->address, sizeof(s->address)))
		fail("connect");
	connect_end(s, fd);
	pthread_barrier_wait(&ready);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		while (s->outstanding < CHAINS)
			post_chain(s);
		wait_for_completions(s);
	}
	while (s->outstanding)
		wait_for_completions(s);
	close(fd);
	return NULL;
}

struct moment {
	double s, cpu_s;
	uint64_t completed;
};

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static struct moment look(void)
{
	struct moment moment = { 0 };
	struct timespec now;
	struct rusage used;

	clock_gettime(CLOCK_MONOTONIC, &now);
	getrusage(RUSAGE_SELF, &used);
	moment.s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
	moment.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
	for (unsigned i = 0; i < count; i++)
		moment.completed +=
			atomic_load_explicit(&streams[i].completed, memory_order_relaxed);
	return moment;
}

static void measure(void)
{
	struct moment begin, end;
	pthread_t ids[STREAMS_MAX];

	pthread_barrier_init(&ready, NULL, count + 1);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&ids[i], NULL, write_all, &streams[i]))
			fail("pthread_create");
	pthread_barrier_wait(&ready);
	usleep(WARM_UP_MS * 1000);
	begin = look();
	usleep(RUN_MS * 1000);
	end = look();
	atomic_store(&stop, true);
	for (unsigned i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
	printf("%.1f %.2f\n",
	       (double)(end.completed - begin.completed) * CHAIN * MESSAGE / (1 << 20) /
		       (end.s - begin.s),
	       (end.cpu_s - begin.cpu_s) / (end.s - begin.s));
}

int main(int argc, char **argv)
{
	if (argc == 2 + WORDS && !strcmp(argv[1], "target"))
		return be_target(argv + 2);
	sleeps = argc > 1 && !strcmp(argv[1], "sleeps");
	if (sleeps || (argc > 1 && !strcmp(argv[1], "polls")))
		count = argc > 3 && (argc - 3) % WORDS == 0 ? (unsigned)(argc - 3) / WORDS : 0;
	if (count < 1 || count > STREAMS_MAX) {
		fputs("usage: streams target DEVICE GID_INDEX ADDRESS PORT\n"
		      "       streams polls|sleeps DEVICE {CPU GID_INDEX ADDRESS PORT}...\n",
		      stderr);
		return 2;
	}
	for (unsigned i = 0; i < count; i++) {
		char **words = argv + 3 + (size_t)i * WORDS;

		streams[i].device = argv[2];
		streams[i].cpu = atoi(words[0]);
		streams[i].gid_index = (uint8_t)atoi(words[1]);
		streams[i].address = address_of(words[2], words[3]);
		make_end(&streams[i]);
	}
	measure();
	return 0;
}
