/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crowd - how cost grows with the number of processes that a process is connected to.
 *
 *     crowd [--all | --near N] [--fill] [--check SEED] [--stay] DEVICE PEERS
 *
 * Makes PEERS + 1 processes, with an RC QP between the first and each other; with --all, between
 * any two; with --near, between each and the next N. Prints, of the first process, one line of
 * JSON:
 * - poll_ns: an ibv_poll_cq of an empty CQ, while all others sleep;
 * - send_us: half of a ping-pong of 8 bytes with one of them, while the rest sleep;
 * - exchange_us: a message to and from each peer, per message, while all processes take part;
 * - longest_ms: of all processes, the longest that one sent its messages and waited for those of
 * its peers, in these and in those of --fill: longer than the time-out of a request that waited for
 * it;
 * - peer_kib: address space, and memory (RssShmem), for each peer, at the end;
 * - total_mib: memory of all processes beyond what each had before it opened the device: its share
 *   (Pss) and page tables (VmPTE);
 * - fds: its descriptors.
 * --fill lets each process send so much to each peer before that all rings have wrapped.
 * --check asks random peers after random pauses instead. A message that takes ten seconds was slept
 * over: on a busy machine a process waits for a processor for up to a second. Only time in which
 * the first process polls counts, so a machine that stands still makes no message late. What the
 * process that was asked does by then is printed.
 * --stay lets all processes stay, after that, until standard input ends.
 */
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rc.h"

#define PROCESSES_MAX 1024u
#define POLLS	      200000
#define PINGS	      10000
#define ROUNDS	      10
#define QUESTIONS     2000
#define LATE_NS	      10000000000ull
#define GAP_MAX_NS    100000000ull /* between two polls, as it counts */
#define MEET_SECONDS  250 /* until all are there: those of 1,000 processes on a busy machine */
#define PSN	      77
#define FILL_BYTES    16384 /* a message of --fill, and the longest that is received */
#define FILL_ROUNDS   40

/* Of all processes. */
struct shared {
	pthread_barrier_t barrier;
	union ibv_gid gid;
	uint32_t qpn[PROCESSES_MAX][PROCESSES_MAX]; /* [a][b]: a's QP to b */
	_Atomic long grown_kib;			    /* by all */
	_Atomic uint64_t longest_ns;		    /* a round of exchange */
	struct {
		_Alignas(64) pid_t pid;
		_Atomic uint64_t received;
		_Atomic bool sleeps; /* in ibv_get_cq_event */
	} seen[PROCESSES_MAX];
};

struct peer {
	struct ibv_qp *qp;
	uint32_t got, sent; /* messages */
};

static struct shared *shared;
static unsigned processes, self;
static bool all, fill, stay;
static unsigned near;
static struct peer *peers;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint64_t *buffer;
static uint64_t received;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *what, ...)
{
	int error = errno;
	va_list args;

	va_start(args, what);
	fprintf(stderr, "crowd: process %u: ", self);
	vfprintf(stderr, what, args);
	fprintf(stderr, ": %s\n", strerror(error));
	va_end(args);
	_exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool is_peer(unsigned other)
{
	unsigned ahead = (other + processes - self) % processes;

	if (near)
		return ahead && (ahead <= near || processes - ahead <= near);
	return ahead && (all || !self || !other);
}

static void on_missing(int signal)
{
	static const char why[] = "crowd: not all processes came to the barrier\n";

	/* nothing is left to do if it fails */
	if (write(STDERR_FILENO, why, sizeof(why) - 1) < 0)
		_exit(2);
	_exit(1);
}

/* A process that waits in vain fails. Then its parent ends, and with it all others. */
static void meet(void)
{
	alarm(MEET_SECONDS);
	pthread_barrier_wait(&shared->barrier);
	alarm(0);
}

static void open_device(const char *name)
{
	context = rc_open_device(name);
	if (!context)
		fail("no device %s", name);
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 68 * (int)processes, NULL, channel, 0);
	buffer = aligned_alloc(4096, FILL_BYTES);
	mr = buffer ? ibv_reg_mr(pd, buffer, FILL_BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!pd || !channel || !cq || !mr)
		fail("no objects");
	if (!self && ibv_query_gid(context, 1, 0, &shared->gid))
		fail("no GID");
}

static void post_receive(unsigned peer)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = FILL_BYTES, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = peer, .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(peers[peer].qp, &wr, &bad);
	if (errno)
		fail("ibv_post_recv");
}

static void send_bytes_to(unsigned peer, uint32_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = bytes, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | (bytes <= 8 ? IBV_SEND_INLINE : 0u),
	}, *bad;

	errno = ibv_post_send(peers[peer].qp, &wr, &bad);
	if (errno)
		fail("ibv_post_send to %u, %llu received", peer, (unsigned long long)received);
	peers[peer].sent++;
}

static void send_to(unsigned peer)
{
	send_bytes_to(peer, 8);
}

static void make_qp(unsigned peer)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 4,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = 8 },
		.qp_type = IBV_QPT_RC,
	};

	peers[peer].qp = ibv_create_qp(pd, &init);
	if (!peers[peer].qp)
		fail("ibv_create_qp %u", peer);
	shared->qpn[self][peer] = peers[peer].qp->qp_num;
}

static void connect_qp(unsigned peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = shared->qpn[peer][self],
		.rq_psn = PSN,
		.sq_psn = PSN,
		.min_rnr_timer = 1,
		.rnr_retry = 7,
		/* 17 s: who looks at the clock sees whether a request waited for it */
		.timeout = 22,
		.retry_cnt = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = shared->gid, .hop_limit = 1 } },
	};

	if (ibv_modify_qp(peers[peer].qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("to INIT");
	post_receive(peer);
	post_receive(peer);
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(peers[peer].qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("to RTR, peer %u", peer);
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(peers[peer].qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("to RTS");
}

/* One look at the CQ. */
static int poll_cq(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, 16, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			fail("%s", ibv_wc_status_str(wc[i].status));
		if (wc[i].opcode != IBV_WC_RECV)
			continue;
		post_receive((unsigned)wc[i].wr_id);
		peers[wc[i].wr_id].got++;
		atomic_store_explicit(&shared->seen[self].received, ++received,
				      memory_order_relaxed);
	}
	return n;
}

/* Sleeps until so many messages have come. */
static void sleep_until(uint64_t count)
{
	struct ibv_cq *which;
	void *nothing;

	while (received < count) {
		if (ibv_req_notify_cq(cq, 0))
			fail("ibv_req_notify_cq");
		while (poll_cq() > 0)
			;
		if (received >= count)
			return;
		shared->seen[self].sleeps = true;
		if (ibv_get_cq_event(channel, &which, &nothing))
			fail("ibv_get_cq_event");
		shared->seen[self].sleeps = false;
		ibv_ack_cq_events(cq, 1);
	}
}

/* One line for each of its threads, as proc(5) describes them. */
static void print_threads(pid_t pid)
{
	char command[64];

	snprintf(command, sizeof(command), "cat /proc/%d/task/[0-9]*/stat >&2", (int)pid);
	if (system(command))
		fprintf(stderr, "crowd: process %d has ended\n", (int)pid);
}

__attribute__((noreturn)) static void fail_late(unsigned whom, uint64_t count, uint64_t longest_ns)
{
	fprintf(stderr,
		"crowd: process %u (%d) has received %llu messages and %s; "
		"the longest time between two empty polls was %llu ms\n",
		whom, (int)shared->seen[whom].pid, (unsigned long long)shared->seen[whom].received,
		shared->seen[whom].sleeps ? "sleeps" : "is awake",
		(unsigned long long)longest_ns / 1000000);
	print_threads(shared->seen[whom].pid);
	errno = ETIMEDOUT;
	fail("message %llu, of process %u, which was sent %u", (unsigned long long)count, whom,
	     peers[whom].sent);
}

/* `whom`: who is to send the last of these messages. */
static void poll_until(uint64_t count, unsigned whom)
{
	uint64_t last = now_ns(), waited = 0, longest = 0;

	while (received < count) {
		uint64_t now, gap;

		if (poll_cq())
			continue;
		now = now_ns();
		gap = now - last;
		last = now;
		waited += gap < GAP_MAX_NS ? gap : GAP_MAX_NS;
		longest = gap > longest ? gap : longest;
		if (waited > LATE_NS)
			fail_late(whom, count, longest);
	}
}

static double empty_poll_ns(void)
{
	uint64_t begin = now_ns();

	for (int i = 0; i < POLLS; i++)
		poll_cq();
	return (double)(now_ns() - begin) / POLLS;
}

static double pingpong_us(void)
{
	uint64_t begin;

	for (int i = 0; i < PINGS / 10; i++) {
		send_to(1);
		poll_until(received + 1, 1);
	}
	begin = now_ns();
	for (int i = 0; i < PINGS; i++) {
		send_to(1);
		poll_until(received + 1, 1);
	}
	return (double)(now_ns() - begin) / PINGS / 2000;
}

static void answer(unsigned count)
{
	uint64_t before = received;

	for (unsigned i = 1; i <= count; i++) {
		poll_until(before + i, 0);
		send_to(0);
	}
}

static void note_round(uint64_t ns)
{
	uint64_t longest = atomic_load(&shared->longest_ns);

	while (ns > longest && !atomic_compare_exchange_weak(&shared->longest_ns, &longest, ns))
		;
}

/* Returns microseconds a message. */
static double exchange(unsigned rounds, uint32_t bytes)
{
	uint64_t begin = now_ns(), before = received;
	unsigned count = 0;

	for (unsigned i = 0; i < processes; i++)
		count += is_peer(i);
	for (unsigned round = 1; round <= rounds; round++) {
		uint64_t start = now_ns();

		for (unsigned i = 1; i < processes; i++)
			if (is_peer((self + i) % processes))
				send_bytes_to((self + i) % processes, bytes);
		sleep_until(before + (uint64_t)round * count);
		note_round(now_ns() - start);
	}
	return (double)(now_ns() - begin) / 1000 / rounds / count;
}

static long kib_of(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[128];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			kib = atol(line + strlen(name) + 1);
	if (file)
		fclose(file);
	return kib;
}

static long status_kib(const char *name)
{
	return kib_of("/proc/self/status", name);
}

static long memory_kib(void)
{
	return kib_of("/proc/self/smaps_rollup", "Pss:") + status_kib("VmPTE");
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count - 3; /* ., .. and its own */
}

static void measure(long space, long memory, long before_kib)
{
	double poll = 0, send = 0, each;

	if (!self) {
		usleep(50000);
		empty_poll_ns();
		poll = empty_poll_ns();
	}
	meet();
	if (!self)
		send = pingpong_us();
	else if (self == 1)
		answer(PINGS / 10 + PINGS);
	meet();
	each = exchange(ROUNDS, 8);
	meet();
	atomic_fetch_add(&shared->grown_kib, memory_kib() - before_kib);
	meet();
	if (!self)
		printf("{\"peers\": %u, \"all\": %s, \"poll_ns\": %.1f, \"send_us\": %.2f, "
		       "\"exchange_us\": %.2f, \"longest_ms\": %llu, "
		       "\"peer_kib\": [%ld, %ld], \"total_mib\": %ld, \"fds\": %u}\n",
		       processes - 1, all ? "true" : "false", poll, send, each,
		       (unsigned long long)shared->longest_ns / 1000000,
		       (status_kib("VmSize") - space) / (long)(processes - 1),
		       (status_kib("RssShmem") - memory) / (long)(processes - 1),
		       shared->grown_kib / 1024, count_fds());
}

/* The first process polls all the time; the others sleep until it asks. */
static void ask_and_answer(unsigned seed)
{
	uint32_t asked[PROCESSES_MAX] = { 0 };

	for (unsigned i = 0; i < QUESTIONS; i++) {
		unsigned peer = 1 + (unsigned)rand_r(&seed) % (processes - 1);

		asked[peer]++;
		if (!self) {
			uint64_t pause = now_ns() + (unsigned)rand_r(&seed) % 4 * 500000;

			while (now_ns() < pause)
				poll_cq();
			send_to(peer);
			poll_until(received + 1, peer);
			if (peers[peer].got != asked[peer])
				fail("another peer than %u answered", peer);
		} else {
			rand_r(&seed);
			if (peer != self)
				continue;
			sleep_until(asked[peer]);
			send_to(0);
		}
	}
	meet();
	if (!self)
		printf("%u answers\n", QUESTIONS);
}

static int run(const char *device, bool check, unsigned seed)
{
	long space, memory, before_kib = memory_kib();

	peers = calloc(processes, sizeof(*peers));
	shared->seen[self].pid = getpid();
	open_device(device);
	for (unsigned i = 0; i < processes; i++)
		if (is_peer(i))
			make_qp(i);
	space = status_kib("VmSize");
	memory = status_kib("RssShmem");
	meet();
	for (unsigned i = 0; i < processes; i++)
		if (is_peer(i))
			connect_qp(i);
	meet();
	if (fill)
		exchange(FILL_ROUNDS, FILL_BYTES);
	meet();
	if (check)
		ask_and_answer(seed);
	else
		measure(space, memory, before_kib);
	fflush(stdout);
	while (stay && !self && getchar() != EOF)
		;
	pthread_barrier_wait(&shared->barrier); /* for as long as they are to stay */
	_exit(0);
}

int main(int argc, char **argv)
{
	pthread_barrierattr_t attr;
	bool check = false;
	unsigned seed = 1;
	int status = 0;
	pid_t parent;

	for (; argc > 1 && !strncmp(argv[1], "--", 2); argc--, argv++)
		if (!strcmp(argv[1], "--all")) {
			all = true;
		} else if (!strcmp(argv[1], "--fill")) {
			fill = true;
		} else if (!strcmp(argv[1], "--stay")) {
			stay = true;
		} else if (!strcmp(argv[1], "--near") && argc > 2) {
			near = (unsigned)atoi(argv[2]);
			argc--;
			argv++;
		} else if (!strcmp(argv[1], "--check") && argc > 2) {
			check = true;
			seed = (unsigned)atoi(argv[2]);
			argc--;
			argv++;
		}
	processes = argc == 3 ? (unsigned)atoi(argv[2]) + 1 : 0;
	if (processes < 2 || processes > PROCESSES_MAX) {
		fprintf(stderr, "usage: crowd [--all | --near N] [--fill] [--check SEED] [--stay] "
				"DEVICE PEERS\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		fail("mmap");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, processes);
	signal(SIGALRM, on_missing);
	parent = getpid();
	for (self = 0; self < processes; self++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork");
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* the others wait at the barrier */
			if (getppid() != parent)
				return 1; /* it has ended before: no signal comes */
			return run(argv[1], check, seed);
		}
	}
	for (unsigned i = 0; i < processes; i++)
		if (wait(&status) < 0 || status)
			return 1;
	return 0;
}
