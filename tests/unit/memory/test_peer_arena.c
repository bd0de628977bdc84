/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer's arena, mapped where it is used. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "memory/peer_arena.h"

/* Windows: that of the header, one of QPs, those of PEER_KEYS_AT_ONCE keys. */
#define AT_ONCE (1 + 1 + PEER_KEYS_AT_ONCE * 64 / PEER_WINDOW_BYTES)

static struct peer_arena arena;
static void *theirs; /* the peer's own mapping */

static int setup(void **state)
{
	int fd = memfd_create("arena", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, ARENA_BYTES), 0);
	theirs = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(theirs, MAP_FAILED);
	arena_header(theirs)->cookie = 4711;
	arena_header(theirs)->qps_used = 1u << 1500 / ARENA_QPS_A_BIT;
	assert_int_equal(peer_arena_open(&arena, fd), 0);
	close(fd);
	for (uint32_t i = 0; i < ARENA_QPS; i += 512)
		arena_qps(theirs)[i].dest_qpn = i + 1;
	for (uint32_t i = 0; i < ARENA_KEYS; i += 512)
		arena_keys(theirs)[i].pd = i + 1;
	return 0;
}

static int teardown(void **state)
{
	peer_arena_close(&arena);
	munmap(theirs, ARENA_BYTES);
	return 0;
}

static unsigned mapped(void)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < PEER_WINDOWS; i++)
		count += arena.windows[i] != NULL;
	return count;
}

static void test_only_what_is_used(void **state)
{
	assert_int_equal(mapped(), AT_ONCE);
	assert_int_equal(peer_arena_qp(&arena, 77u << ARENA_QP_BITS | 2048)->dest_qpn, 2049);
	assert_int_equal(mapped(), AT_ONCE + 1);
	assert_int_equal(peer_arena_qp(&arena, 2560)->dest_qpn, 2561);
	assert_int_equal(mapped(), AT_ONCE + 1);
	assert_int_equal(peer_arena_key(&arena, ARENA_KEYS - 512)->pd, ARENA_KEYS - 511);
	assert_int_equal(mapped(), AT_ONCE + 2);
}

/* What a post looks up, in general: a window that it mapped could lie where its own SGE was. */
static void test_what_a_post_needs_is_there(void **state)
{
	assert_true(peer_arena_header(&arena)->cookie == 4711);
	assert_int_equal(peer_arena_qp(&arena, 77u << ARENA_QP_BITS | 1024)->dest_qpn, 1025);
	assert_int_equal(peer_arena_qp(&arena, 1536)->dest_qpn, 1537);
	for (uint32_t i = 0; i < KEY_REST + 1024; i += 512)
		assert_int_equal(peer_arena_key(&arena, i)->pd, i + 1);
	assert_int_equal(mapped(), AT_ONCE);
}

static void test_all_of_it(void **state)
{
	for (uint32_t i = PEER_WINDOWS; i-- > 0;) {
		const char *at = peer_arena_at(&arena, i * PEER_WINDOW_BYTES);

		assert_memory_equal(at, (char *)theirs + (size_t)i * PEER_WINDOW_BYTES,
				    PEER_WINDOW_BYTES);
		assert_ptr_equal(peer_arena_at(&arena, i * PEER_WINDOW_BYTES + 8), at + 8);
	}
	assert_int_equal(mapped(), PEER_WINDOWS);
	arena_keys(theirs)[99].length = 5;
	assert_int_equal(peer_arena_key(&arena, 99)->length, 5);
}

static void test_own(void **state)
{
	struct peer_arena own, moved;

	peer_arena_open_own(&own, theirs);
	peer_arena_move(&moved, &own);
	assert_ptr_equal(peer_arena_header(&moved), theirs);
	assert_ptr_equal(peer_arena_qp(&moved, ARENA_QPS - 1), &arena_qps(theirs)[ARENA_QPS - 1]);
	assert_ptr_equal(peer_arena_key(&moved, 70), &arena_keys(theirs)[70]);
	peer_arena_close(&moved);
	peer_arena_close_in_child(&moved);
	assert_true(arena_header(theirs)->cookie == 4711);
}

/* No such QP, no such key; and it is there a second after there are addresses for it. */
static void test_what_cannot_be_mapped_is_zero(void **state)
{
	struct rlimit before, none;
	uint32_t qp, key;

	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	qp = peer_arena_qp(&arena, 2560)->dest_qpn;
	key = peer_arena_key(&arena, 5632)->pd;
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(qp, 0);
	assert_int_equal(key, 0);
	assert_int_equal(mapped(), AT_ONCE);
	/* not at once */
	assert_true(peer_arena_is_missing(peer_arena_qp(&arena, 2560)));
	assert_int_equal(mapped(), AT_ONCE);
	assert_in_range(arena.view.not_before_ns, 1, clock_now_ns() + FILE_VIEW_RETRY_NS);
	arena.view.not_before_ns = clock_coarse_ns();
	assert_false(peer_arena_is_missing(peer_arena_qp(&arena, 2560)));
	assert_int_equal(peer_arena_qp(&arena, 2560)->dest_qpn, 2561);
	assert_int_equal(peer_arena_key(&arena, 5632)->pd, 5633);
}

static void *look(void *arg)
{
	uintptr_t wrong = 0;

	for (uint32_t i = 0; i < ARENA_KEYS; i += 512)
		wrong += peer_arena_key(&arena, i)->pd != i + 1;
	return (void *)wrong;
}

static void test_threads(void **state)
{
	pthread_t threads[2];
	void *wrong;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, NULL), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	assert_int_equal(mapped(), 1 + 1 + ARENA_KEYS * 64 / PEER_WINDOW_BYTES);
}

/* A child of a fork ends what it has; the parent's stays. */
static void test_fork(void **state)
{
	int status;
	pid_t child;

	peer_arena_key(&arena, 6144);
	child = fork();
	if (!child) {
		bool there = peer_arena_key(&arena, 6144)->pd == 6145;

		peer_arena_close_in_child(&arena);
		_exit(!there || mapped());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(peer_arena_key(&arena, 6144)->pd, 6145);
	assert_int_equal(peer_arena_key(&arena, 10240)->pd, 10241);
}

/* The parent may have been mapping another window: the lock is taken, the scratch elsewhere. */
static void test_fork_while_mapping(void **state)
{
	int status;
	pid_t child;

	peer_arena_key(&arena, 512);
	lock_acquire(&arena.view.lock);
	child = fork();
	if (!child) {
		bool there = peer_arena_key(&arena, 512)->pd == 513;

		alarm(10);
		arena.view.scratch = NULL;
		there &= peer_arena_is_missing(peer_arena_key(&arena, 10240));
		there &= mapped() == AT_ONCE;
		peer_arena_close_in_child(&arena);
		_exit(!there);
	}
	lock_release(&arena.view.lock);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(peer_arena_key(&arena, 10240)->pd, 10241);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_only_what_is_used),
		TEST(test_what_a_post_needs_is_there),
		TEST(test_all_of_it),
		TEST(test_own),
		TEST(test_what_cannot_be_mapped_is_zero),
		TEST(test_threads),
		TEST(test_fork),
		TEST(test_fork_while_mapping),
	};

	return cmocka_run_group_tests_name("peer arena", tests, NULL, NULL);
}
