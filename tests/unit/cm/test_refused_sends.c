/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel refuses to send a request to verbatimd, as it does when a user has too many
 * descriptors under way, or out of memory, or to make a file as large as it has to be, or another
 * process: one call fails, and nothing else.
 */
#include "harness.h"
#include "pairs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Messages of this type are refused with this errno, so many. */
static struct {
	enum ctl_type type;
	int error;
	atomic_int left;
} refuse;

static bool is_refused(const struct msghdr *m)
{
	const struct ctl_header *header = m->msg_iov[0].iov_base;

	return atomic_load(&refuse.left) && m->msg_iov[0].iov_len >= sizeof(*header) &&
	       header->type == refuse.type && atomic_fetch_sub(&refuse.left, 1) > 0;
}

/* In place of the C library's, which librdmacm would call. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (m->msg_iovlen && is_refused(m)) {
		errno = refuse.error;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, m, flags);
}

static void refuse_next(enum ctl_type type, int error, int count)
{
	refuse.type = type;
	refuse.error = error;
	atomic_store(&refuse.left, count);
}

/* The identifiers are as before: the pair gets the events of a disconnect, and no others. */
static void end_connected(struct pair *p)
{
	CHECK(!has_event(p->active, 50) && !has_event(p->passive, 50));
	CHECK(!rdma_disconnect(p->id));
	CHECK(expect_event(p->passive, RDMA_CM_EVENT_DISCONNECTED) == p->child);
	CHECK(!rdma_disconnect(p->child));
	CHECK(expect_event(p->active, RDMA_CM_EVENT_DISCONNECTED) == p->id);
	pair_close(p);
}

static void test_one_call_fails(void **state)
{
	static const int errors[] = { ETOOMANYREFS, ENOMEM, ENOBUFS, EAGAIN };
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		/* With a descriptor it waits. */
		refuse_next(CTL_CM_CREATE_CHANNEL, errors[i], 3);
		CHECK((channel = rdma_create_event_channel()));
		CHECK(!atomic_load(&refuse.left));
		refuse_next(CTL_CM_CREATE_ID, errors[i], 1);
		CHECK(fails_with(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), errors[i]));
		rdma_destroy_event_channel(channel);
	}
	end_connected(&p);
}

/* The library's thread waits for the end of verbatimd, in poll(2). */
static bool is_watching(void)
{
	pid_t thread = pairs_watching_thread();
	long number = -1;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)thread);
	file = thread ? fopen(path, "re") : NULL;
	if (file && fscanf(file, "%ld", &number) != 1)
		number = -1;
	if (file)
		fclose(file);
	return number >= 0 && number != SYS_futex;
}

/* An identifier that could not be destroyed is, before the next request: its port is free. */
static void test_destroyed_all_the_same(void **state)
{
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	CHECK(channel);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	/* which, when it begins, destroys what could not be destroyed, too */
	for (int64_t end = now_ms() + PATIENCE_MS; !is_watching(); usleep(1000))
		CHECK(now_ms() < end);
	for (int i = 0; i < 3; i++) {
		CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 1));
		at.sin_port = rdma_get_src_port(id);
		refuse_next(CTL_CM_DESTROY_ID, ENOMEM, 1 + i);
		CHECK(!rdma_destroy_id(id));
		for (int j = 0; j < i; j++)
			CHECK(fails_with(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), ENOMEM));
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	}
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* The first request of all, too, with this process's store. */
static void greet(int fd)
{
	struct rdma_event_channel *channel;

	refuse_next(CTL_CM_HELLO, ETOOMANYREFS, 5);
	CHECK((channel = rdma_create_event_channel()));
	CHECK(!atomic_load(&refuse.left));
	rdma_destroy_event_channel(channel);
}

static void test_first_call_waits(void **state)
{
	struct worker w;

	worker_start(&w, greet);
	worker_end(&w);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	CHECK(!getrlimit(RLIMIT_FSIZE, &limit));
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
}

/* Where the kernel would send SIGXFSZ. */
static void live_with_small_files(int fd)
{
	struct rdma_event_channel *channel;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;

	CHECK(devices && devices[0]);
	limit_files(1 << 20);
	CHECK(!ibv_open_device(devices[0]) && errno == EFBIG);
	limit_files(64 << 20);
	CHECK((context = ibv_open_device(devices[0])));
	CHECK(!rdma_create_event_channel() && errno == EFBIG);
	limit_files(0);
	CHECK(!ibv_open_device(devices[0]) && errno == EFBIG);
	CHECK((pd = ibv_alloc_pd(context)));
	CHECK(!ibv_dealloc_pd(pd));
	limit_files(RLIM_INFINITY);
	CHECK((channel = rdma_create_event_channel()));
	rdma_destroy_event_channel(channel);
	CHECK(!ibv_close_device(context));
	ibv_free_device_list(devices);
}

static void test_small_files(void **state)
{
	struct worker w;

	worker_start(&w, live_with_small_files);
	worker_end(&w);
}

/* Its channels are refused on the way to the next verbatimd, which has the session already. */
static void test_return_is_repeated(void **state)
{
	static const enum ctl_type types[] = { CTL_CM_HELLO, CTL_CM_RETURN_CHANNEL, CTL_CM_BEGIN };
	struct rdma_event_channel *channel;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		pid_t daemon = daemon_pid();

		refuse_next(types[i], ETOOMANYREFS, 3);
		CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
		for (int64_t until = now_ms() + PATIENCE_MS; atomic_load(&refuse.left) > 0;) {
			CHECK(now_ms() < until);
			usleep(1000);
		}
		CHECK((channel = rdma_create_event_channel()));
		rdma_destroy_event_channel(channel);
	}
	end_connected(&p);
}

static atomic_bool has_no_process; /* the user has as many as may be (setrlimit(2), pids.max) */
static atomic_uint tries;	   /* meanwhile */

/* In place of the C library's, by which librdmacm starts verbatimd. */
__attribute__((visibility("default"))) int clone(int (*run)(void *), void *stack, int flags,
						 void *arg, ...)
{
	int (*real)(int (*)(void *), void *, int, void *, ...);

	if (has_no_process) {
		tries++;
		errno = EAGAIN;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "clone");
	return real(run, stack, flags, arg);
}

static atomic_bool has_come;

static void *wait_there(void *channel)
{
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	has_come = true;
	return NULL;
}

/*
 * An event waits, and the next verbatimd cannot be started yet: a call that does not block returns,
 * and one that blocks sleeps until there is one.
 */
static void test_no_process_for_a_while(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;
	int64_t spent_ms;
	pid_t daemon;
	int flags;

	CHECK(channel);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	CHECK(has_event(channel, PATIENCE_MS));
	wait_for_the_last_daemon();
	daemon = daemon_pid();
	has_no_process = true;
	CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	usleep(50000);
	flags = fcntl(channel->fd, F_GETFL);
	CHECK(!fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK));
	CHECK(fails_with(rdma_get_cm_event(channel, &event), EAGAIN));
	CHECK(!fcntl(channel->fd, F_SETFL, flags));
	spent_ms = processor_ms(getpid());
	CHECK(!pthread_create(&thread, NULL, wait_there, channel));
	usleep(1000000);
	CHECK(!has_come && processor_ms(getpid()) - spent_ms < 500);
	has_no_process = false;
	CHECK(!pthread_join(thread, NULL) && has_come && !rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* Without a verbatimd destroying costs no try each; the next one is told first of all. */
static void test_destroyed_meanwhile(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *ids[100];
	unsigned before;
	pid_t daemon;

	/* Half of them have a channel of their own. */
	for (int i = 0; i < 100; i++)
		CHECK(!rdma_create_id(i % 2 ? NULL : channel, &ids[i], NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(ids[0], (struct sockaddr *)&at) && !rdma_listen(ids[0], 1));
	at.sin_port = rdma_get_src_port(ids[0]);
	wait_for_the_last_daemon();
	daemon = daemon_pid();
	tries = 0;
	has_no_process = true;
	CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	for (int64_t until = now_ms() + PATIENCE_MS; tries < 2; usleep(1000))
		CHECK(now_ms() < until);
	before = tries;
	for (int i = 0; i < 100; i++)
		CHECK(!rdma_destroy_id(ids[i]));
	CHECK(tries < before + 20);
	has_no_process = false;
	CHECK(!rdma_create_id(channel, &ids[0], NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(ids[0], (struct sockaddr *)&at) && !rdma_listen(ids[0], 1));
	CHECK(!rdma_destroy_id(ids[0]));
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_call_fails, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_first_call_waits, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_small_files, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_destroyed_all_the_same, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_return_is_repeated, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_no_process_for_a_while, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_destroyed_meanwhile, harness_setup,
						harness_teardown),
	};

	signal(SIGCHLD, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
