/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The promises of migration (docs/design/one-sided.md): no write of a peer is lost while pages go
 * to the heap and come back; memory that the program has mapped there since is left alone; no
 * thread waits for ever; a forked child has its own copy.
 */
#include <linux/aio_abi.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "migrate_world.h"
#include "memory/memory.h"

static bool is_mapped(uint32_t key, const void *at, size_t bytes)
{
	return migrate_map(key_entry(KEY_INDEX(key)), (uintptr_t)at, bytes);
}

/* Other data shares the pages at the edges: peers do not see them. */
static void test_migrated_and_given_back(void **state)
{
	char *region = make_region(BYTES), *last = region + BYTES - PAGE;
	uint32_t key = make_key(region + 24, BYTES - 100, 0);
	uint64_t *word = (uint64_t *)(region + PAGE);

	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), 0);
	assert_int_equal(peek(heap_of(key) + PAGE - 24), PAGE / 8 * 31);
	*word = 77;
	assert_int_equal(peek(heap_of(key) + PAGE - 24), 77);
	*word = PAGE / 8 * 31;
	assert_int_equal(peek(heap_of(key) + PAGE - 24 - 8), 0);
	assert_int_equal(peek(heap_of(key) + (uint64_t)(last - (region + 24))), 0);
	assert_true(is_mapped(key, region + PAGE, BYTES - 2 * PAGE));
	assert_false(is_mapped(key, region + 24, 8));
	assert_false(is_mapped(key, region + PAGE - 8, 16));
	assert_false(is_mapped(key, last - 8, 16));
	assert_false(is_mapped(key, last, 8));
	end_key(key);
	check_region(region, BYTES);
	assert_int_equal(peek(2ul << 20), 0); /* and the heap's part is empty again */
	munmap(region, BYTES);
}

/* A region without a whole page of its own stays. */
static void test_no_whole_page(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region + 1, 2 * PAGE - 2, 0);

	ask(key);
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), KEY_STAYS);
	end_key(key);
	munmap(region, BYTES);
}

static void test_keys_share_a_range(void **state)
{
	char *region = make_region(BYTES);
	uint32_t inner = make_key(region + PAGE, PAGE, 0);
	uint32_t outer = make_key(region, BYTES, 0), same = make_key(region, BYTES, 0);
	uint32_t demand = make_key(region, BYTES, KEY_ON_DEMAND);
	uint32_t late;

	ask(outer);
	assert_int_equal(heap_of(inner), heap_of(outer) + PAGE);
	assert_int_equal(heap_of(demand), 0);
	assert_int_equal(flags_of(demand), KEY_ON_DEMAND);
	late = make_key(region + 2 * PAGE + 8, 8, 0);
	assert_int_equal(heap_of(late), heap_of(outer) + 2 * PAGE + 8);
	assert_true(is_mapped(late, region + 2 * PAGE + 8, 8));
	end_key(outer);
	end_key(inner);
	assert_int_not_equal(heap_of(late), 0); /* the last that covers it keeps it */
	assert_true(peek(heap_of(late)) == (2 * PAGE / 8 + 1) * 31);
	end_key(same);
	assert_int_equal(heap_of(late), 0);
	assert_int_equal(flags_of(late), 0);
	assert_int_equal(peek(2ul << 20), 0);
	end_key(late);
	end_key(demand);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

static void test_part_of_a_migrated_range(void **state)
{
	char *region = make_region(BYTES);
	uint32_t first = make_key(region, BYTES / 2, 0);
	uint32_t across = make_key(region + PAGE, BYTES - PAGE, 0);

	ask(first);
	ask(across);
	assert_int_not_equal(heap_of(first), 0);
	assert_int_equal(heap_of(across), 0);
	assert_int_equal(flags_of(across), KEY_STAYS);
	end_key(first);
	end_key(across);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

static void test_refused(void **state)
{
	char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *gap = make_region(BYTES), *readonly = make_region(BYTES);
	char *stack = __builtin_frame_address(0);
	uint32_t keys[] = {
		make_key(shared, BYTES, 0),
		make_key(gap, BYTES, 0),
		make_key(readonly, BYTES, 0),
		make_key(stack - 8192, 4096, 0),
		make_key(NULL, SIZE_MAX, KEY_ON_DEMAND),
		make_key(NULL, SIZE_MAX, KEY_NULL),
	};

	munmap(gap + BYTES / 2, PAGE);
	mprotect(readonly, PAGE, PROT_READ);
	for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		ask(keys[i]);
		assert_int_equal(heap_of(keys[i]), 0);
		assert_int_equal(flags_of(keys[i]) & (KEY_STAYS | KEY_MOVING), KEY_STAYS);
		end_key(keys[i]);
	}
	munmap(shared, BYTES);
	munmap(gap, BYTES);
	munmap(readonly, BYTES);
}

/* The program has unmapped part of the region, and mapped other memory there. */
static void test_unmapped_meanwhile(void **state)
{
	char *region = make_region(BYTES), *other;
	uint32_t key = make_key(region, BYTES, 0), newer;

	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	munmap(region + BYTES / 2, BYTES / 4);
	other = mmap(region + BYTES / 2, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(other, 'o', PAGE);
	newer = make_key(other, PAGE, 0);
	assert_int_equal(heap_of(newer), 0);
	end_key(key);
	check_region(region, BYTES / 2);
	for (unsigned i = 0; i < PAGE; i++)
		assert_int_equal(other[i], 'o');
	for (size_t i = BYTES / 4 * 3 / 8; i < BYTES / 8; i++)
		assert_int_equal(((uint64_t *)region)[i], i * 31);
	ask(newer);
	assert_int_not_equal(heap_of(newer), 0);
	end_key(newer);
	assert_int_equal(other[9], 'o');
	munmap(region, BYTES);
}

static const struct memory_peer target = { .pd = 1 };

/* Writes a word as the responder does for a peer on another host. */
static enum cause peer_writes(uint32_t key, const void *at, uint64_t word)
{
	return memory_write_remote(target, key, (uintptr_t)at, sizeof(word), &word, sizeof(word));
}

/* The responder requests a region that it writes often, once, and writes in the heap afterwards. */
static void test_written_often(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0), demand = make_key(region, BYTES, KEY_ON_DEMAND);
	uint64_t *words = (uint64_t *)region;

	kicks = 0;
	stop_clock(); /* the range is refused if a write to it takes 50 ms */
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(kicks, i < 16 ? 0 : 1);
		assert_int_equal(peer_writes(key, &words[i], ~i), CAUSE_NONE);
		assert_int_equal(peer_writes(demand, &words[i + 1000], ~i), CAUSE_NONE);
	}
	start_clock();
	wait_until_quiet();
	assert_int_not_equal(heap_of(key), 0);
	for (uint64_t i = 100; i < 200; i++)
		assert_int_equal(peer_writes(key, &words[i], ~i), CAUSE_NONE);
	for (uint64_t i = 0; i < 200; i++) {
		assert_true(words[i] == ~i);
		assert_true(peek(heap_of(key) + 8 * i) == ~i);
	}
	assert_int_equal(kicks, 1);

	/* the program has unmapped the page: the responder writes in the heap all the same */
	munmap(region, PAGE);
	assert_int_equal(peer_writes(key, words, 5), CAUSE_NONE);
	assert_int_equal(peek(heap_of(key)), 5);
	assert_int_equal(peer_writes(demand, words, 5), CAUSE_MEMORY_FAULT_REMOTE);
	end_key(demand);
	end_key(key);
	munmap(region, BYTES);
}

static blkcnt_t heap_blocks(void)
{
	struct stat st;

	assert_int_equal(fstat(heap_fd, &st), 0);
	return st.st_blocks;
}

/* The memory of pages that came back is freed. More rounds than the heap has room for. */
static void test_places_are_used_again(void **state)
{
	char *region = make_region(BYTES);
	blkcnt_t before = heap_blocks();
	uint64_t place = 0;

	for (unsigned round = 0; round < 2 * HEAP / BYTES; round++) {
		uint32_t key = make_key(region, BYTES, 0);

		ask(key);
		assert_int_not_equal(heap_of(key), 0);
		assert_true(!round || heap_of(key) == place);
		place = heap_of(key);
		assert_int_equal(peer_writes(key, region + 8, round), CAUSE_NONE);
		assert_int_equal(peek(place + 8), round);
		end_key(key);
		assert_int_equal(((uint64_t *)region)[1], round);
	}
	assert_true(heap_blocks() <= before);
	munmap(region, BYTES);
}

/*
 * The child maps memory where the parent has its window: migrate_init in the child leaves that
 * alone.
 */
static void test_child_with_an_adapter(void **state)
{
	char *region = make_region(BYTES), *window, *canary;
	uint32_t key = make_key(region, BYTES, 0);
	int status;
	pid_t pid;

	ask(key);
	window = migrate_map(key_entry(KEY_INDEX(key)), (uintptr_t)region, 8);
	assert_non_null(window);
	window = (char *)((uintptr_t)window & ~(PAGE - 1));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		canary = mmap(window, PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (canary != window)
			_exit(2);
		strcpy(canary, "mine");
		migrate_init(memfd_create("next-heap", MFD_CLOEXEC), HEAP, kick);
		_exit(msync(canary, PAGE, MS_ASYNC) || strcmp(canary, "mine"));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end_key(key);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

struct peer {
	uint32_t key;
	uint64_t *words[2];
	uint64_t writes; /* that succeeded */
	bool lost;
};

/* Writes until the key is dead. */
static void *keep_writing_as_peer(void *arg)
{
	struct peer *peer = arg;

	for (;; peer->writes++) {
		uint64_t next = peer->writes + 1;
		struct iovec pieces[] = { { &next, 3 }, { (char *)&next + 3, 5 } };

		if (peer_writes(peer->key, peer->words[0], next) != CAUSE_NONE)
			return NULL;
		/* the program sees the write, in the heap or not */
		peer->lost |= *(volatile uint64_t *)peer->words[0] != next;
		if (memory_write_remote_pieces(target, peer->key, (uintptr_t)peer->words[1], 8,
					       pieces, 2, 8) != CAUSE_NONE)
			return NULL;
		peer->lost |= *(volatile uint64_t *)peer->words[1] != next;
	}
}

/* While the pages go to the heap and come back, each write that succeeded is there. */
static void test_no_write_of_a_peer_is_lost(void **state)
{
	char *region = make_region(BYTES);
	struct peer peer = { .words = { (uint64_t *)(region + 16),
					(uint64_t *)(region + BYTES - 8) } };
	pthread_t thread;
	unsigned moved = 0;
	uint64_t all = 0;

	for (int round = 0; round < 50; round++) {
		peer.key = make_key(region, BYTES, 0);
		peer.writes = *peer.words[0] = *peer.words[1] = 0;
		pthread_create(&thread, NULL, keep_writing_as_peer, &peer);
		usleep(200);
		ask(peer.key);
		moved += heap_of(peer.key) != 0;
		usleep(300);
		end_key(peer.key);
		pthread_join(thread, NULL);
		assert_false(peer.lost);
		assert_in_range(*peer.words[0] - peer.writes, 0, 1);
		assert_true(*peer.words[1] == peer.writes);
		all += peer.writes;
	}
	assert_in_range(moved, 10, 50); /* in the other rounds the key died first */
	assert_true(all > 1000);
	munmap(region, BYTES);
}

/* A peer writes to a region, while pages of one that overlaps it go to the heap and come back. */
static void test_neighbour_in_a_page(void **state)
{
	char *region = make_region(BYTES);
	struct peer peer = {
		.words = { (uint64_t *)(region + 6000), (uint64_t *)(region + 9000) },
		.key = make_key(region + 6000, BYTES - 6000, KEY_STAYS),
	};
	pthread_t thread;
	unsigned moved = 0;

	*peer.words[0] = *peer.words[1] = 0;
	pthread_create(&thread, NULL, keep_writing_as_peer, &peer);
	for (int round = 0; round < 300; round++) {
		uint32_t key = make_key(region, 8500, 0);

		ask(key);
		moved += heap_of(key) != 0;
		end_key(key);
	}
	end_key(peer.key);
	pthread_join(thread, NULL);
	assert_false(peer.lost);
	assert_true(*peer.words[1] == peer.writes);
	assert_in_range(moved, 1, 300);
	munmap(region, BYTES);
}

static void test_fork(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	int status, go[2];
	pid_t child;
	char byte;

	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		if (read(go[0], &byte, 1) != 1)
			_exit(2);
		if (!is_region(region, BYTES)) /* the parent has written since */
			_exit(3);
		memset(region, 'c', BYTES);
		_exit(0);
	}
	memset(region, 'p', BYTES);
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < BYTES; i++)
		if (region[i] != 'p')
			fail_msg("the child wrote to the parent's memory");
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), 0);
	ask(key); /* and in again */
	assert_int_not_equal(heap_of(key), 0);
	end_key(key);
	assert_int_equal(region[BYTES - 1], 'p');
	close(go[0]);
	close(go[1]);
	munmap(region, BYTES);
}

#define FDS_MAX 256

/* Opens descriptors until none is left. Returns their number. */
static int use_up_descriptors(int fds[FDS_MAX], struct rlimit *before)
{
	struct rlimit few;
	int count = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
	few = (struct rlimit){ FDS_MAX, before->rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (count < FDS_MAX && (fds[count] = dup(STDERR_FILENO)) >= 0)
		count++;
	assert_true(count < FDS_MAX && errno == EMFILE);
	return count;
}

/* No page leaves then, and the mappings are not shared with the child all the same. */
static void test_fork_without_descriptors(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	int fds[FDS_MAX], count, status;
	struct rlimit before;
	pid_t child;

	ask(key);
	assert_true(is_shared(region));
	count = use_up_descriptors(fds, &before);
	child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the tests */
		if (!is_region(region, BYTES))
			_exit(3);
		memset(region, 'c', BYTES);
		_exit(0);
	}
	while (count > 0)
		close(fds[--count]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	check_region(region, BYTES);

	child = fork(); /* the next one is as usual: nothing is left of the advice */
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(!is_region(region, BYTES));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	end_key(key);
	wait_until_private(region);
	munmap(region, BYTES);
}

#define MANY 200 /* mappings, as in the heap there is a page between two ranges */

/* No page can leave while there is an AIO context: the child has a copy of each. */
static void test_fork_while_many_ranges_stay(void **state)
{
	aio_context_t aio = 0;
	uint32_t keys[MANY];
	char *regions[MANY];
	int status;
	pid_t child;

	for (int i = 0; i < MANY; i++) {
		regions[i] = make_region(PAGE);
		*regions[i] = (char)i;
		keys[i] = make_key(regions[i], PAGE, 0);
		ask(keys[i]);
		assert_true(is_shared(regions[i]));
	}
	assert_int_equal(syscall(SYS_io_setup, 1, &aio), 0);
	child = fork();
	if (!child) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the tests */
		for (int i = 0; i < MANY; i++) {
			if (*regions[i] != (char)i || is_shared(regions[i]))
				_exit(1);
			*regions[i] = 'c';
		}
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(syscall(SYS_io_destroy, aio), 0);
	for (int i = 0; i < MANY; i++) {
		end_key(keys[i]);
		wait_until_private(regions[i]);
		assert_int_equal(*regions[i], (char)i);
		munmap(regions[i], PAGE);
	}
}

static const char *watched; /* by a fork, when migrate_before_fork has returned */
static bool was_shared;

static void look_before_fork(void)
{
	was_shared = watched && is_shared(watched);
}

static _Atomic unsigned signals;

static void count_signal(int number)
{
	signals++;
}

static void interrupt_every_ms(bool on)
{
	struct sigaction handler = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, on ? 1000 : 0 }, { 0, on ? 1000 : 0 } };

	if (on)
		assert_int_equal(sigaction(SIGALRM, &handler, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

#define MANY_SLICES (64 * RANGE_SLICE_BYTES)

/* Signal handlers run while a thread waits for pages to leave: the wait goes on. */
static void test_signals_while_pages_leave(void **state)
{
	char *region = make_region(MANY_SLICES);
	uint32_t key = make_key(region, MANY_SLICES, 0);
	int status;
	pid_t child;

	ask(key);
	assert_true(is_shared(region));
	watched = region;
	signals = 0;
	interrupt_every_ms(true);
	child = fork();
	if (!child)
		_exit(!is_region(region, MANY_SLICES));
	interrupt_every_ms(false);
	watched = NULL;
	assert_true(signals > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_false(was_shared);

	ask(key);
	assert_true(is_shared(region));
	signals = 0;
	interrupt_every_ms(true);
	end_key(key);
	assert_false(is_shared(region));
	interrupt_every_ms(false);
	assert_true(signals > 0);
	check_region(region, MANY_SLICES);
	munmap(region, MANY_SLICES);
}

static void *fork_on_a_migrated_stack(void *arg)
{
	char block[3 * PAGE];
	char *aligned = (char *)(((uintptr_t)block + PAGE - 1) & ~(PAGE - 1));
	uint32_t key = make_key(aligned, PAGE, 0);
	int status;
	pid_t child;

	memset(block, 's', sizeof(block));
	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	child = fork();
	if (child == 0) {
		memset(block, 'c', sizeof(block));
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(heap_of(key), 0);
	for (size_t i = 0; i < sizeof(block); i++)
		assert_int_equal(block[i], 's');
	end_key(key);
	return arg;
}

static void test_fork_on_a_migrated_stack(void **state)
{
	pthread_t thread;

	pthread_create(&thread, NULL, fork_on_a_migrated_stack, NULL);
	pthread_join(thread, NULL);
}

static void *end_pages_of_own_stack(void *arg)
{
	char block[300 * PAGE];
	char *aligned = (char *)(((uintptr_t)block + PAGE - 1) & ~(PAGE - 1));
	uint32_t key = make_key(block, sizeof(block), 0);

	memset(block, 's', sizeof(block));
	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	assert_true(is_shared(aligned));
	end_key(key);
	assert_false(is_shared(aligned));
	for (size_t i = 0; i < sizeof(block); i++)
		assert_int_equal(block[i], 's');
	return arg;
}

static void test_own_stack(void **state)
{
	pthread_t thread;

	pthread_create(&thread, NULL, end_pages_of_own_stack, NULL);
	pthread_join(thread, NULL);
}

/*
 * A program locks all that it maps from now on (mlockall(2)): its older memory moves, and what is
 * locked stays.
 */
static void test_memory_is_locked_from_now_on(void **state)
{
	char *region = make_region(BYTES), *locked;
	uint32_t key = make_key(region, BYTES, 0), other;

	/* the sanitizers ignore the function */
	if (syscall(SYS_mlockall, MCL_FUTURE))
		skip();
	ask(key);
	locked = make_region(BYTES);
	other = make_key(locked, BYTES, 0);
	ask(other);
	syscall(SYS_munlockall);
	assert_int_not_equal(heap_of(key), 0);
	assert_int_equal(heap_of(other), 0);
	assert_int_equal(flags_of(other), KEY_STAYS);
	end_key(key);
	end_key(other);
	check_region(region, BYTES);
	check_region(locked, BYTES);
	munmap(region, BYTES);
	munmap(locked, BYTES);
}

static void test_never(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);

	setenv("VERBATIM_MIGRATE", "never", 1);
	migrate_init(heap_fd, HEAP, kick);
	ask(key);
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), KEY_STAYS);
	end_key(key);
	unsetenv("VERBATIM_MIGRATE");
	migrate_init(heap_fd, HEAP, kick);
	munmap(region, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_migrated_and_given_back),
		cmocka_unit_test(test_no_whole_page),
		cmocka_unit_test(test_keys_share_a_range),
		cmocka_unit_test(test_part_of_a_migrated_range),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_unmapped_meanwhile),
		cmocka_unit_test(test_written_often),
		cmocka_unit_test(test_places_are_used_again),
		cmocka_unit_test(test_child_with_an_adapter),
		cmocka_unit_test(test_no_write_of_a_peer_is_lost),
		cmocka_unit_test(test_neighbour_in_a_page),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_without_descriptors),
		cmocka_unit_test(test_fork_while_many_ranges_stay),
		cmocka_unit_test(test_signals_while_pages_leave),
		cmocka_unit_test(test_fork_on_a_migrated_stack),
		cmocka_unit_test(test_own_stack),
		cmocka_unit_test(test_memory_is_locked_from_now_on),
		cmocka_unit_test(test_never),
	};

	pthread_atfork(look_before_fork, NULL, NULL); /* after those that are set later */
	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
