/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream that ends is given up in time, whatever it waits for; responses leave by shares. The
 * clock is the test's. The child of a fork has no copy of a stream's socket, wherever the parent
 * was.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../iwarp/rig.h"
#include "connection.h"
#include "iwarp/bytes.h"
#include "memory/hazard.h"
#include "memory/memory.h"
#include "object/mw.h"
#include "tcp/streams.h"
#include "tcp/tcp.h"

#define SECOND	     1000000000ull
#define SHARE	     (256u << 10) /* of responses, in a poll */
#define SOCKET_BYTES (256 << 10)  /* of each buffer of a socket */

static uint64_t ahead_s;
static int fd, peer;
static unsigned ends;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

/* Time passes slowly, so that a busy machine does not reach a limit by itself, and by ahead_s. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	static _Atomic uint64_t begin_ns;
	uint64_t now_ns, none = 0;
	int rc = __real_clock_gettime(clock, now);

	now_ns = (uint64_t)now->tv_sec * SECOND + (uint64_t)now->tv_nsec;
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
		return rc;
	atomic_compare_exchange_strong(&begin_ns, &none, now_ns);
	now_ns = now_ns > begin_ns ? now_ns - begin_ns : 0; /* the coarse one is behind */
	now_ns = begin_ns + now_ns / 16 + ahead_s * SECOND;
	*now = (struct timespec){ (time_t)(now_ns / SECOND), (long)(now_ns % SECOND) };
	return rc;
}

/* Where the parent is when it forks. */
enum place {
	ATTACHING,
	TELLING,
	DRAINING,
	CLOSING,
	CLOSED, /* and the number is another file's */
	PLACES,
};

static bool forks;
static unsigned children[PLACES];
static bool child_has_fd[PLACES]; /* one of them, at least */

static void fork_at(enum place place)
{
	int status = 0;
	pid_t child;

	if (!forks)
		return;
	child = fork();
	if (!child) {
		forks = false;
		streams_reset_after_fork();
		_exit(fcntl(fd, F_GETFD) >= 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	children[place]++;
	child_has_fd[place] |= status != 0;
}

/*
 * A fork by another thread that has copied the descriptors when the socket is closed, and copies
 * the memory when the stream has been served.
 */
static bool forks_beside;
static bool is_forbidden; /* unshare(2), in some containers */
static _Thread_local bool copies_before;
static pthread_t forker;
static sem_t has_copied, may_copy_memory;

static void await(sem_t *sem)
{
	while (sem_wait(sem) < 0)
		;
}

/* The last handler before the fork. The thread has descriptors of its own from here on. */
static void copy_descriptors(void)
{
	if (!copies_before)
		return;
	is_forbidden = unshare(CLONE_FILES) < 0;
	sem_post(&has_copied);
	await(&may_copy_memory);
}

/* The child's status. */
static void *fork_beside(void *unused)
{
	int status = -1;
	pid_t child;

	copies_before = true;
	child = fork();
	if (!child) {
		forks_beside = false;
		streams_reset_after_fork();
		_exit(fcntl(fd, F_GETFD) >= 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? (void *)(intptr_t)status
								: (void *)-1;
}

/* The rest of the program is a signal handler's child. */
static bool becomes_child;
static int child_status;

static void become_child(void)
{
	pid_t child;

	if (!becomes_child)
		return;
	child = fork();
	if (!child) {
		streams_reset_after_fork();
		return;
	}
	becomes_child = false;
	if (child < 0 || waitpid(child, &child_status, 0) != child)
		child_status = -1;
}

int __real_tcp_prepare(int of);
int __wrap_tcp_prepare(int of);
bool __real_tcp_drain(int of);
bool __wrap_tcp_drain(int of);
int __real_close(int of);
int __wrap_close(int of);

int __wrap_tcp_prepare(int of)
{
	fork_at(ATTACHING);
	become_child();
	return __real_tcp_prepare(of);
}

bool __wrap_tcp_drain(int of)
{
	fork_at(DRAINING);
	return __real_tcp_drain(of);
}

int __wrap_close(int of)
{
	if (forks_beside && of == fd) {
		assert_int_equal(pthread_create(&forker, NULL, fork_beside, NULL), 0);
		await(&has_copied);
	}
	if (!forks || of != fd)
		return __real_close(of);
	fork_at(CLOSING);
	assert_int_equal(dup2(peer, fd), fd);
	fork_at(CLOSED);
	return __real_close(of);
}

static void nothing(void)
{
}

static void ended(void *arg)
{
	ends++;
	fork_at(TELLING);
}

static int setup(void **state)
{
	static const struct streams_env env = { nothing, nothing, nothing };

	/* else they would hold all that attach_and_fill posts */
	if (connection_make(&fd, &peer, SOCKET_BYTES) < 0)
		return -1;
	rig_create(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	ends = 0;
	return streams_init(&env);
}

static int teardown(void **state)
{
	int rc = rig_destroy(state);

	close(peer);
	for (int i = 0; i < 2; i++) { /* it has ended; it has lingered */
		ahead_s += 2 * STREAMS_LINGER_NS / SECOND;
		streams_service();
	}
	return rc;
}

static void attach(bool initiator)
{
	const struct mpa_agreed agreed = { .initiator = initiator, .extensions = true, .ird = 1 };

	lock_acquire(&rig[0].qp->lock);
	assert_int_equal(streams_attach(rig[0].qp, fd, &agreed, ended, NULL), 0);
	lock_release(&rig[0].qp->lock);
}

static void wait_for(short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	assert_int_equal(poll(&p, 1, 5000), 1);
}

/* A segment of the peer: the last of a message, untagged, of MSN 1. */
static void send_segment(enum rdmap_opcode opcode, enum ddp_queue queue, uint32_t stag,
			 const void *payload, size_t bytes)
{
	uint8_t fpdu[128] = { 0 };
	struct segment segment = {
		.opcode = opcode, .last = true, .queue = queue, .stag = stag, .msn = 1
	};
	ssize_t all = fpdu_bytes(UNTAGGED_BYTES + (uint32_t)bytes);

	put16(fpdu, (uint16_t)(UNTAGGED_BYTES + bytes));
	segment_encode(&segment, fpdu + FPDU_LENGTH_BYTES);
	if (bytes)
		memcpy(fpdu + FPDU_LENGTH_BYTES + UNTAGGED_BYTES, payload, bytes);
	assert_int_equal(send(peer, fpdu, (size_t)all, 0), all);
	wait_for(POLLIN);
}

/*
 * Until no byte moves, for longer than the kernel delays an acknowledgement in its own time, and
 * the stream takes none.
 */
static void settle(void)
{
	uint64_t before;

	do {
		before = tcp_bytes_moved(fd);
		do
			streams_catch_up(rig[0].qp);
		while (iwarp_of(rig[0].qp)->sending.yielded);
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	} while (tcp_bytes_moved(fd) != before);
}

/* All that the sockets hold is full, and more is posted. */
static void attach_and_fill(void)
{
	attach(true);
	for (unsigned i = 0; i < 60; i++)
		rig_post(0, IBV_WR_RDMA_WRITE, RIG_BYTES, i);
	settle();
	assert_true(iwarp_wants_room(rig[0].qp));
	assert_int_equal(streams_due_ns(), STREAMS_NEVER);
}

static bool has_ended_after(uint64_t seconds)
{
	ahead_s += seconds;
	streams_service(); /* gives it up */
	streams_service(); /* tells of it */
	return ends == 1;
}

static void enter_error(void)
{
	lock_acquire(&rig[0].qp->lock);
	qp_enter_error(rig[0].qp, CAUSE_NONE);
	lock_release(&rig[0].qp->lock);
}

static void test_failed(void **state)
{
	attach_and_fill();
	enter_error();
	assert_false(has_ended_after(STREAMS_LINGER_NS / SECOND - 1));
	assert_true(has_ended_after(2));
}

static void test_half_closed_by_the_peer(void **state)
{
	attach_and_fill();
	shutdown(peer, SHUT_WR);
	streams_catch_up(rig[0].qp);
	streams_catch_up(rig[0].qp);
	assert_false(has_ended_after(28));
	assert_true(has_ended_after(3));
}

/* As by ibv_modify_qp to SQD. */
static void disconnect(void)
{
	lock_acquire(&rig[0].qp->lock);
	rig[0].qp->path->close(rig[0].qp);
	lock_release(&rig[0].qp->lock);
}

static void test_disconnected(void **state)
{
	attach_and_fill();
	disconnect();
	assert_false(has_ended_after(28));
	assert_true(has_ended_after(3));
}

/* The peer reads what its TCP has. */
static void take_all(void)
{
	static uint8_t taken[65536];

	while (recv(peer, taken, sizeof(taken), MSG_DONTWAIT) > 0)
		;
}

static void test_disconnected_from_a_slow_peer(void **state)
{
	attach_and_fill();
	disconnect();
	for (int i = 0; i < 6; i++) {
		take_all();
		settle();
		assert_false(has_ended_after(10));
	}
	assert_false(has_ended_after(28));
	assert_true(has_ended_after(3));
}

/* Nothing is posted: the FIN leaves, and the peer takes it, but sends none. */
static void test_half_closed(void **state)
{
	attach(true);
	disconnect();
	settle();
	assert_false(has_ended_after(1)); /* the acknowledgement of the FIN counts */
	assert_false(has_ended_after(STREAMS_LINGER_NS / SECOND - 1));
	assert_true(has_ended_after(2));
}

/* A byte of the peer counts, too, but not for ever. */
static void test_failed_with_a_peer_that_trickles(void **state)
{
	attach_and_fill();
	enter_error();
	for (int i = 0; i < 24; i++) {
		assert_int_equal(send(peer, "", 1, 0), 1);
		assert_false(has_ended_after(2));
	}
	assert_int_equal(send(peer, "", 1, 0), 1);
	assert_true(has_ended_after(3));
	has_ended_after(2);
	assert_true(fcntl(fd, F_GETFD) >= 0); /* it lingers within limits of its own */
}

/* The QP is gone. The peer's bytes are dropped while they come, as a close would reset it. */
static void test_lingering(void **state)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	attach(true);
	assert_int_equal(qp_modify(rig[0].qp, &reset, IBV_QP_STATE), 0);
	assert_true(has_ended_after(0));
	for (int i = 0; i < 4; i++) {
		assert_int_equal(send(peer, "", 1, 0), 1);
		has_ended_after(2);
		assert_true(fcntl(fd, F_GETFD) >= 0);
	}
	has_ended_after(STREAMS_LINGER_NS / SECOND + 1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

#define LONG_WRITE 40000u
#define WRITES	   10 /* some 400 KB: more than is read at a time */

/* The peer sends WRITEs. False: its socket or this one's has no room for them. */
static bool send_long_writes(void)
{
	uint32_t ulpdu = TAGGED_BYTES + LONG_WRITE;
	static uint8_t fpdu[TAGGED_BYTES + LONG_WRITE + 16];
	struct segment segment = {
		.opcode = RDMAP_WRITE,
		.tagged = true,
		.last = true,
		.stag = rig[0].mr->ib.rkey,
		.to = (uintptr_t)rig[0].memory,
	};
	int room = 2 * RIG_BYTES;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(peer, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	put16(fpdu, (uint16_t)ulpdu);
	segment_encode(&segment, fpdu + FPDU_LENGTH_BYTES);
	for (int i = 0; i < WRITES; i++)
		if (send(peer, fpdu, fpdu_bytes(ulpdu), MSG_DONTWAIT) != fpdu_bytes(ulpdu))
			return false;
	return true;
}

static int unread(void)
{
	int bytes = 0;

	assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
	return bytes;
}

/* They have arrived, and are not read. */
static void await_long_writes(void)
{
	for (int i = 0; i < 500 && unread() < (int)(WRITES * LONG_WRITE); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	assert_true(unread() >= (int)(WRITES * LONG_WRITE));
}

/* No poll that leaves bytes behind says that it found nothing. */
static void test_failed_with_much_to_read(void **state)
{
	attach(true);
	enter_error();
	if (!send_long_writes())
		skip();
	assert_int_equal(shutdown(peer, SHUT_WR), 0);
	await_long_writes();
	wait_for(POLLRDHUP);
	while (streams_progress(true))
		;
	assert_true(has_ended_after(0));
}

/* Binds a window by whose key a thread copies from now on. */
static struct arena_hazard *bind_and_copy(struct mw **mw)
{
	struct ibv_send_wr bind = { .opcode = IBV_WR_BIND_MW };

	assert_int_equal(mw_create(rig[0].qp->pd, IBV_MW_TYPE_2, mw), 0);
	bind.bind_mw.mw = &(*mw)->ib;
	bind.bind_mw.rkey = (*mw)->ib.rkey;
	bind.bind_mw.bind_info.mr = &rig[0].mr->ib;
	bind.bind_mw.bind_info.addr = (uintptr_t)rig[0].memory;
	bind.bind_mw.bind_info.length = 4096;
	bind.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	rig_post_wr(0, &bind);
	rig_expect(0, 0, IBV_WC_SUCCESS);
	return hazard_set(memory_slot(), (*mw)->ib.rkey);
}

/* The copy does not end, and the peer closes. */
static void expect_end(struct arena_hazard *hazard, struct mw *mw, uint64_t wr_id)
{
	assert_int_equal(shutdown(peer, SHUT_WR), 0);
	wait_for(POLLRDHUP);
	streams_catch_up(rig[0].qp);
	streams_catch_up(rig[0].qp);
	assert_false(has_ended_after(1));
	assert_false(has_ended_after(28));
	assert_true(rig_is_quiet(0));
	assert_true(has_ended_after(4));
	rig_expect(0, wr_id, IBV_WC_WR_FLUSH_ERR);
	hazard_clear(hazard);
	assert_int_equal(mw_destroy(mw), 0);
}

static void test_a_local_invalidate_waits(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_LOCAL_INV };
	struct arena_hazard *hazard;
	struct mw *mw;

	attach(true);
	hazard = bind_and_copy(&mw);
	wr.invalidate_rkey = mw->ib.rkey;
	rig_post_wr(0, &wr);
	expect_end(hazard, mw, 7);
}

/* A SEND with invalidate has come, and waits for a copy by the key that it invalidates. */
static struct arena_hazard *receive_send_with_invalidate(struct mw **mw)
{
	struct arena_hazard *hazard;

	attach(false);
	hazard = bind_and_copy(mw);
	rig_receive(0, 8, 0);
	send_segment(RDMAP_SEND_INV, QUEUE_SEND, (*mw)->ib.rkey, NULL, 0);
	streams_catch_up(rig[0].qp);
	return hazard;
}

/* Nothing behind that SEND is read meanwhile, not even the peer's FIN. */
static void test_a_send_with_invalidate_waits(void **state)
{
	struct arena_hazard *hazard;
	struct mw *mw;

	hazard = receive_send_with_invalidate(&mw);
	expect_end(hazard, mw, 8);
}

/* The copy ends: what has come behind that SEND is read without another event of the socket. */
static void test_much_to_read_behind_a_send_with_invalidate(void **state)
{
	struct arena_hazard *hazard;
	struct mw *mw;

	hazard = receive_send_with_invalidate(&mw);
	assert_true(rig_is_quiet(0));
	if (send_long_writes()) {
		await_long_writes();
		hazard_clear(hazard);
		ahead_s++;
		while (streams_due_ns() != STREAMS_NEVER)
			streams_service();
		rig_expect(0, 8, IBV_WC_SUCCESS);
		assert_int_equal(unread(), 0);
	} else {
		hazard_clear(hazard);
	}
	assert_int_equal(mw_destroy(mw), 0);
}

/* The peer reads the segments with the next bytes of the response. */
static void take_response(uint32_t bytes)
{
	const uint32_t header = FPDU_LENGTH_BYTES + TAGGED_BYTES;
	static uint8_t taken[FPDU_BYTES_MAX];

	while (bytes) {
		uint32_t ulpdu, rest;

		assert_int_equal(recv(peer, taken, header, MSG_WAITALL), header);
		ulpdu = get16(taken);
		rest = fpdu_bytes(ulpdu) - header;
		assert_int_equal(recv(peer, taken, rest, MSG_WAITALL), rest);
		assert_in_range(ulpdu - TAGGED_BYTES, 1, bytes);
		bytes -= ulpdu - TAGGED_BYTES;
	}
}

/* Each poll sends a share, and says that there may be more. */
static void test_responses_leave_by_shares(void **state)
{
	const struct read_request request = {
		.source_stag = rig[0].mr->ib.rkey,
		.source_to = (uintptr_t)rig[0].memory,
		.size = RIG_BYTES,
	};
	const struct owed_response *response;
	uint8_t bytes[READ_REQUEST_BYTES];
	uint32_t left = RIG_BYTES, polls;
	int room = 2 * RIG_BYTES;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	attach(false);
	response = &iwarp_of(rig[0].qp)->responses[0];
	read_request_encode(&request, bytes);
	send_segment(RDMAP_READ_REQUEST, QUEUE_REQUEST, 0, bytes, sizeof(bytes));
	for (polls = 0; left; polls++) {
		uint32_t before = left;

		assert_true(streams_progress(true));
		left = response->left;
		assert_in_range(before - left, left ? SHARE : 1, 2 * SHARE - 1);
		take_response(before - left);
	}
	assert_in_range(polls, 3, 4);
	assert_false(streams_progress(true));
}

/* The socket of a stream that is refused stays the caller's. */
static void test_second_stream(void **state)
{
	const struct mpa_agreed agreed = { .initiator = true };
	int second = dup(fd);

	attach_and_fill();
	lock_acquire(&rig[0].qp->lock);
	assert_int_equal(streams_attach(rig[0].qp, second, &agreed, ended, NULL), -EINVAL);
	lock_release(&rig[0].qp->lock);
	assert_int_equal(close(second), 0);
}

/* At once beyond ten limits, which is their bound: an acknowledgement that is late changes nothing.
 */
static void attach_and_end(void)
{
	const uint64_t bound_s = 11 * STREAMS_LINGER_NS / SECOND;

	attach_and_fill();
	enter_error();
	assert_true(has_ended_after(bound_s));
	assert_int_equal(streams_count, 1);
	ahead_s += bound_s;
	streams_service();
}

static void test_forks(void **state)
{
	forks = true;
	attach_and_end();
	forks = false;
	assert_int_equal(streams_count, 0);
	for (enum place place = 0; place < PLACES; place++) {
		assert_true(children[place] > 0);
		assert_int_equal(child_has_fd[place], place == CLOSED);
	}
}

static void test_closed_while_a_thread_forks(void **state)
{
	void *status;

	forks_beside = true;
	attach_and_end();
	forks_beside = false;
	assert_true(fcntl(fd, F_GETFD) < 0);
	assert_int_equal(streams_count, 1);
	sem_post(&may_copy_memory);
	assert_int_equal(pthread_join(forker, &status), 0);
	if (is_forbidden)
		skip();
	assert_null(status);
	assert_true(streams_due_ns() != STREAMS_NEVER);
	assert_int_equal(dup2(peer, fd), fd); /* the number is another file's now */
	ahead_s++;
	streams_service();
	assert_int_equal(streams_count, 0);
	assert_int_equal(streams_due_ns(), STREAMS_NEVER);
	assert_int_equal(close(fd), 0);
}

/* A signal handler that forks interrupts streams_attach, which goes on in the child, too. */
static void test_attached_in_a_child(void **state)
{
	const struct mpa_agreed agreed = { .initiator = true };
	int rc;

	becomes_child = true;
	lock_acquire(&rig[0].qp->lock);
	rc = streams_attach(rig[0].qp, fd, &agreed, ended, NULL);
	lock_release(&rig[0].qp->lock);
	if (becomes_child)
		_exit(!(rc < 0 && !streams_any()));
	assert_int_equal(rc, 0);
	assert_int_equal(child_status, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_failed),
		TEST(test_half_closed_by_the_peer),
		TEST(test_disconnected),
		TEST(test_disconnected_from_a_slow_peer),
		TEST(test_half_closed),
		TEST(test_failed_with_a_peer_that_trickles),
		TEST(test_lingering),
		TEST(test_a_local_invalidate_waits),
		TEST(test_a_send_with_invalidate_waits),
		TEST(test_failed_with_much_to_read),
		TEST(test_much_to_read_behind_a_send_with_invalidate),
		TEST(test_responses_leave_by_shares),
		TEST(test_second_stream),
		TEST(test_forks),
		TEST(test_closed_while_a_thread_forks),
		TEST(test_attached_in_a_child),
	};

	/* Prepare handlers run in reverse order. */
	pthread_atfork(copy_descriptors, NULL, NULL);
	streams_watch_forks();
	return sem_init(&has_copied, 0, 0) || sem_init(&may_copy_memory, 0, 0) ||
	       cmocka_run_group_tests(tests, NULL, NULL);
}
