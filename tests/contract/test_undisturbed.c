/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program does with memory beside RDMA is not disturbed because it is registered, and
 * because peers write to it often: rule 38 of the contract.
 *
 * At end b a thread registers memory of its own and waits; end a writes to it until whatever is
 * done to memory that is written often has been done; then the thread does what programs do.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rnic.h"
#include "expect.h"

#ifndef sigev_notify_thread_id /* missing in older versions of glibc */
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define PAGE	   4096ul
#define STACK_ROOM (64 * PAGE)
#define LARGE	   (16ul << 20)
#define WRITES	   64
#define LIMIT_MS   (10000 * (unsigned)patience())

enum stage { NEW, READY, GO, DONE };

/* Of end b. */
static struct guest {
	struct side *side;
	struct ibv_mr *mr;
	char *memory;
	size_t bytes;
	_Atomic enum stage stage;
	pthread_t thread;
} guest;

struct op_guest {
	void *(*body)(void *); /* the same at both ends: it is the same program */
	uint64_t addr, bytes;
	uint32_t rkey;
};

static void wait_for(enum stage stage, const char *what)
{
	uint64_t end = now_ms() + LIMIT_MS;

	while (guest.stage < stage) {
		REQUIRE(now_ms() < end, "%s hangs", what);
		sleep_ms(1);
	}
}

static void op_start_guest(struct side *side, void *argument)
{
	struct op_guest *op = argument;

	guest.side = side;
	guest.stage = NEW;
	REQUIRE(pthread_create(&guest.thread, NULL, op->body, NULL) == 0, "pthread_create");
	wait_for(READY, "registering");
	op->addr = (uintptr_t)guest.memory;
	op->bytes = guest.bytes;
	op->rkey = guest.mr->rkey;
}

static void op_end_guest(struct side *side, void *argument)
{
	guest.stage = GO;
	wait_for(DONE, "the thread");
	REQUIRE(pthread_join(guest.thread, NULL) == 0, "pthread_join");
}

/* The thread's memory is registered; returns when end a has written to it. */
static void be_written_to(char *memory, size_t bytes)
{
	memset(memory, 'm', bytes);
	guest.memory = memory;
	guest.bytes = bytes;
	guest.mr = ibv_reg_mr(guest.side->pd, memory, bytes, ACCESS_ALL);
	REQUIRE(guest.mr, "ibv_reg_mr: %s", strerror(errno));
	guest.stage = READY;
	wait_for(GO, "end a");
}

static void stop_being_written_to(void)
{
	REQUIRE(ibv_dereg_mr(guest.mr) == 0, "ibv_dereg_mr");
}

/* End a wrote its words to both ends of the memory, and all else is as it was. */
static void check_memory(const char *memory, size_t bytes)
{
	uint64_t first, last;

	memcpy(&first, memory, 8);
	memcpy(&last, memory + bytes - 8, 8);
	REQUIRE(first == WRITES - 2 && last == WRITES - 1, "what was written last is %llu and %llu",
		(unsigned long long)first, (unsigned long long)last);
	for (size_t i = 8; i < bytes - 8; i++)
		REQUIRE(memory[i] == 'm', "byte %zu of %zu has changed", i, bytes);
}

static void run_guest(struct pair *pair, void *(*body)(void *))
{
	struct op_guest op = { .body = body };

	pair_connect(pair, WITH());
	RUN(&pair->b, op_start_guest, &op);
	for (uint64_t i = 0; i < WRITES; i++) {
		poke(&pair->a, 0, i);
		post_send(&pair->a, 0,
			  REQUEST(.opcode = IBV_WR_RDMA_WRITE, .wr_id = i, .length = 8,
				  .rkey = op.rkey,
				  .remote = i % 2 ? op.addr + op.bytes - 8 : op.addr));
		expect(&pair->a, SENDS, i, IBV_WC_SUCCESS);
	}
	/* By TCP a WRITE is complete before it has arrived; a READ after it has the answer. */
	if (over_iwarp()) {
		post_send(&pair->a, 0,
			  REQUEST(.opcode = IBV_WR_RDMA_READ, .wr_id = WRITES, .length = 8,
				  .rkey = op.rkey, .remote = op.addr));
		expect(&pair->a, SENDS, WRITES, IBV_WC_SUCCESS);
	}
	sleep_ms(30);
	RUN(&pair->b, op_end_guest, &op);
	expect_working(pair, 0);
}

static void fork_a_child(char *memory, size_t bytes)
{
	int status;
	pid_t pid = fork();

	REQUIRE(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		runner_become_peer();
		check_memory(memory, bytes);
		memset(memory, 'c', bytes);
		_exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0, "the child: status 0x%x", status);
}

static void *dereg_on_own_stack(void *arg)
{
	char memory[STACK_ROOM];

	be_written_to(memory, sizeof(memory));
	stop_being_written_to();
	check_memory(memory, sizeof(memory));
	guest.stage = DONE;
	return arg;
}

static void rule_38_dereg_on_own_stack(struct pair *pair)
{
	run_guest(pair, dereg_on_own_stack);
}

static void *fork_on_own_stack(void *arg)
{
	char memory[STACK_ROOM];

	be_written_to(memory, sizeof(memory));
	fork_a_child(memory, sizeof(memory));
	check_memory(memory, sizeof(memory));
	stop_being_written_to();
	check_memory(memory, sizeof(memory));
	guest.stage = DONE;
	return arg;
}

static void rule_38_fork_on_own_stack(struct pair *pair)
{
	run_guest(pair, fork_on_own_stack);
}

static _Thread_local char own_block[STACK_ROOM];

static void *dereg_thread_local(void *arg)
{
	be_written_to(own_block, sizeof(own_block));
	stop_being_written_to();
	check_memory(own_block, sizeof(own_block));
	guest.stage = DONE;
	return arg;
}

static void rule_38_thread_local_memory(struct pair *pair)
{
	run_guest(pair, dereg_thread_local);
}

static char *large;
static _Atomic uint64_t alarms;

static void count_alarm(int signal)
{
	__atomic_fetch_add((uint64_t *)(large + LARGE / 2), 1, __ATOMIC_SEQ_CST);
	alarms++;
}

/* A signal handler writes to pages that are guarded, on the thread that waits for them. */
static void *dereg_among_signals(void *arg)
{
	struct sigaction count = { .sa_handler = count_alarm, .sa_flags = SA_RESTART }, before;
	struct itimerspec often = { { 0, 1000000 }, { 0, 1000000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
	timer_t timer;

	event.sigev_notify_thread_id = gettid();
	large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	be_written_to(large, LARGE);
	memset(large + LARGE / 2, 0, 8);
	alarms = 0;
	sigaction(SIGALRM, &count, &before);
	REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "%s", strerror(errno));
	timer_settime(timer, 0, &often, NULL);
	sleep_ms(10);
	stop_being_written_to();
	sleep_ms(10);
	timer_delete(timer); /* the last signal is handled before this returns */
	sigaction(SIGALRM, &before, NULL);
	REQUIRE(*(uint64_t *)(large + LARGE / 2) == alarms && alarms, "%llu alarms, %llu counted",
		(unsigned long long)alarms, (unsigned long long)*(uint64_t *)(large + LARGE / 2));
	memset(large + LARGE / 2, 'm', 8);
	check_memory(large, LARGE);
	munmap(large, LARGE);
	guest.stage = DONE;
	return arg;
}

static void rule_38_signals_during_dereg(struct pair *pair)
{
	run_guest(pair, dereg_among_signals);
}

static void *fork_often(void *arg)
{
	for (int i = 0; i < 20; i++)
		fork_a_child(guest.memory, guest.bytes);
	*(_Atomic bool *)arg = true;
	return NULL;
}

/*
 * The thread's first block: the header of its arena, which it uses all the time, is on the block's
 * first page.
 */
static void *allocate_beside_fork(void *arg)
{
	char *memory = malloc(STACK_ROOM);
	_Atomic bool forked = false;
	void *blocks[64] = { NULL };
	pthread_t other;

	be_written_to(memory, STACK_ROOM);
	pthread_create(&other, NULL, fork_often, &forked);
	for (unsigned i = 0; !atomic_load(&forked); i++) {
		free(blocks[i % 64]);
		blocks[i % 64] = malloc(10 + i % 3000);
	}
	pthread_join(other, NULL);
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	stop_being_written_to();
	check_memory(memory, STACK_ROOM);
	free(memory);
	guest.stage = DONE;
	return arg;
}

static void rule_38_fork_beside_malloc(struct pair *pair)
{
	run_guest(pair, allocate_beside_fork);
}

static uint32_t *word;
static _Atomic bool awake;

static void *sleep_on_word(void *arg)
{
	while (!*(volatile uint32_t *)word)
		syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
	awake = true;
	return arg;
}

static void wake_word(pthread_t thread)
{
	*(volatile uint32_t *)word = 1;
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
	for (unsigned i = 0; i < LIMIT_MS && !awake; i++)
		sleep_ms(1);
	REQUIRE(awake, "the sleeper was not woken");
	pthread_join(thread, NULL);
}

/* A stack that the program has made, all of it registered, with what the C library keeps there. */
static void *fork_on_registered_stack(void *arg)
{
	fork_a_child(guest.memory, PAGE);
	*(_Atomic bool *)arg = true;
	return NULL;
}

static void *fork_on_stack(void *arg, bool busy)
{
	char *stack = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *first = (uint64_t *)stack;
	_Atomic bool forked = false;
	pthread_attr_t attr;
	pthread_t thread, sleeper;

	be_written_to(stack, LARGE);
	check_memory(stack, LARGE);
	first[PAGE / 8 - 1] = *(uint64_t *)(stack + LARGE - 8); /* what the child looks for */
	if (busy) {
		/* in the slice of the stack's end */
		word = (uint32_t *)(stack + LARGE - (512ul << 10));
		*word = 0;
		awake = false;
		REQUIRE(pthread_create(&sleeper, NULL, sleep_on_word, NULL) == 0, "pthread_create");
		sleep_ms(20);
	}
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, LARGE);
	REQUIRE(pthread_create(&thread, &attr, fork_on_registered_stack, &forked) == 0,
		"pthread_create");
	if (busy) {
		sleep_ms(100);
		wake_word(sleeper);
	}
	/* not in pthread_join: who sleeps in a futex on the pages keeps them where they are */
	for (unsigned i = 0; i < LIMIT_MS && !forked; i++)
		sleep_ms(1);
	REQUIRE(forked, "fork hangs");
	pthread_join(thread, NULL);
	stop_being_written_to();
	guest.stage = DONE;
	return arg;
}

static void *register_a_stack(void *arg)
{
	return fork_on_stack(arg, false);
}

/*
 * The pages cannot move at first, as a thread sleeps in a futex on them; without them the child
 * would have no stack.
 */
static void *register_a_busy_stack(void *arg)
{
	return fork_on_stack(arg, true);
}

static void rule_38_stack_in_a_region(struct pair *pair)
{
	run_guest(pair, register_a_stack);
}

static void rule_38_busy_stack_in_a_region(struct pair *pair)
{
	run_guest(pair, register_a_busy_stack);
}

static void *sleep_on_a_futex(void *arg)
{
	char *memory =
		mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	word = (uint32_t *)(memory + LARGE / 2);
	*word = 0;
	be_written_to(memory, LARGE);
	for (int i = 0; i < 2; i++) {
		awake = false;
		*word = 0;
		pthread_create(&thread, NULL, sleep_on_word, NULL);
		sleep_ms(20);
		if (i)
			stop_being_written_to();
		wake_word(thread);
	}
	munmap(memory, LARGE);
	guest.stage = DONE;
	return arg;
}

static void rule_38_futex_in_a_region(struct pair *pair)
{
	run_guest(pair, sleep_on_a_futex);
}

/* What the kernel reads from a file straight into the pages, across ibv_dereg_mr. */
static void *read_directly(void *arg)
{
	char *memory =
		mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[] = "/var/tmp/verbatim-test-XXXXXX", *pattern = malloc(LARGE);
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_nbytes = LARGE },
		    *list = &block;
	aio_context_t aio = 0;
	struct io_event event;
	int fd = mkstemp(name), direct;

	be_written_to(memory, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		pattern[i] = (char)(i * 7 >> 3);
	REQUIRE(fd >= 0 && write(fd, pattern, LARGE) == (ssize_t)LARGE && fsync(fd) == 0, "a file");
	direct = open(name, O_RDONLY | O_DIRECT);
	unlink(name);
	if (direct >= 0 && syscall(SYS_io_setup, 4, &aio) == 0) {
		block.aio_fildes = (uint32_t)direct;
		block.aio_buf = (uintptr_t)memory;
		REQUIRE(syscall(SYS_io_submit, aio, 1, &list) == 1, "io_submit: %s",
			strerror(errno));
		stop_being_written_to();
		REQUIRE(syscall(SYS_io_getevents, aio, 1, 1, &event, NULL) == 1, "io_getevents");
		REQUIRE(event.res == (int64_t)LARGE, "read %lld", (long long)event.res);
		REQUIRE(!memcmp(memory, pattern, LARGE), "what was read is not there");
		syscall(SYS_io_destroy, aio);
	} else {
		stop_being_written_to();
	}
	if (direct >= 0)
		close(direct);
	close(fd);
	free(pattern);
	munmap(memory, LARGE);
	guest.stage = DONE;
	return arg;
}

static void rule_38_direct_io_during_dereg(struct pair *pair)
{
	run_guest(pair, read_directly);
}

static void ready(struct end *end, int qp, uint32_t qpn)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };

	for (int i = 0; i < 3; i++) {
		struct op_move op = {
			.qp = qp, .to = way[i], .qpn = qpn, .gid = end->gid, .lid = end->lid
		};

		RUN(end, op_move, &op);
		REQUIRE(op.result == 0, "QP %d to state %d: %s", qp, way[i], strerror(op.result));
	}
}

/* A WRITE, a READ and a SEND of each length. */
static void move_each_way(struct end *from, int qp, struct end *to, int to_qp)
{
	static const uint32_t lengths[] = { 8, 4096, 65536, 300000 };
	const uint32_t there = 1 << 20, back = 2 << 20;

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t length = lengths[i];

		fill(from, 0, length, i + 1);
		post_send(from, qp, WRITE(to, there, .wr_id = 1, .length = length));
		expect(from, SENDS, 1, IBV_WC_SUCCESS);
		expect_bytes(to, there, length, i + 1);
		post_send(from, qp, READ(to, there, .wr_id = 2, .offset = back, .length = length));
		expect(from, SENDS, 2, IBV_WC_SUCCESS);
		expect_bytes(from, back, length, i + 1);
		fill(from, 0, length, i + 11);
		post_receive(to, to_qp, RECEIVE(.wr_id = 3, .offset = there, .length = length));
		post_send(from, qp, SEND(.wr_id = 4, .length = length));
		expect(from, SENDS, 4, IBV_WC_SUCCESS);
		expect(to, RECEIVES, 3, IBV_WC_SUCCESS);
		expect_bytes(to, there, length, i + 11);
	}
}

/* QP 0 is towards the other end; QPs 1 and 2 of b are connected with each other. */
static void use_without_first_thread(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	move_each_way(a, 0, b, 0);
	move_each_way(b, 0, a, 0);
	ready(b, 1, b->qpn[2]);
	ready(b, 2, b->qpn[1]);
	move_each_way(b, 1, b, 2);
	expect_working(pair, 0);
}

static void skip_rnics(void)
{
	if (over_iwarp())
		skip_because("rdma_cm alone connects QPs of RNICs");
}

static void rule_38_first_thread_ends(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	skip_rnics();
	pair_make(pair, WITH(.qps = 3, .size = 4 << 20));
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	move_each_way(a, 0, b, 0);
	end_leave_first_thread(b);
	use_without_first_thread(pair);
}

static void rule_38_first_thread_ended_before(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	skip_rnics();
	pair_make(pair, WITH(.qps = 3, .size = 4 << 20));
	end_leave_first_thread(b);
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	use_without_first_thread(pair);
}

/* Not even the device was open when the thread ended. */
static void rule_38_first_thread_ended_at_first(struct pair *pair)
{
	skip_rnics();
	end_leave_first_thread(&pair->b);
	pair_make(pair, WITH(.qps = 3, .size = 4 << 20));
	end_ready(&pair->a, &pair->b, 0);
	end_ready(&pair->b, &pair->a, 0);
	use_without_first_thread(pair);
}

static const struct test tests[] = {
	PAIR(rule_38_dereg_on_own_stack),
	PAIR(rule_38_fork_on_own_stack),
	PAIR(rule_38_thread_local_memory),
	PAIR(rule_38_stack_in_a_region),
	PAIR(rule_38_busy_stack_in_a_region),
	PAIR_WITHIN(60, rule_38_signals_during_dereg),
	PAIR_WITHIN(60, rule_38_fork_beside_malloc),
	PAIR_WITHIN(60, rule_38_futex_in_a_region),
	PAIR_WITHIN(60, rule_38_direct_io_during_dereg),
	APART(rule_38_first_thread_ends),
	APART(rule_38_first_thread_ended_before),
	APART(rule_38_first_thread_ended_at_first),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
