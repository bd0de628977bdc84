/* SPDX-License-Identifier: BSD-2-Clause */
#include "migrate_world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "memory/hold.h"
#include "memory/maps.h"
#include "memory/memory.h"

int heap_fd;
struct move_heap heap;
void *peer_arena;

static void *own_arena;
_Atomic unsigned kicks;

static _Atomic uint64_t stopped_ns; /* 0: the clock runs */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool kicked, quiet;

void kick(void)
{
	kicks++;
	pthread_mutex_lock(&mutex);
	kicked = true;
	quiet = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

void stop_clock(void)
{
	stopped_ns = clock_now_ns();
}

void start_clock(void)
{
	stopped_ns = 0;
}

static uint64_t now_ns(void)
{
	uint64_t stopped = stopped_ns;

	return stopped ? stopped : clock_now_ns();
}

static void *progress(void *arg)
{
	for (;;) {
		uint64_t next = migrate_run(now_ns());
		struct timespec until = { (time_t)(next / 1000000000ull),
					  (long)(next % 1000000000ull) };

		if (!next)
			continue;
		pthread_mutex_lock(&mutex);
		if (next == MIGRATE_NEVER) {
			quiet = !kicked;
			pthread_cond_broadcast(&changed);
			while (!kicked)
				pthread_cond_wait(&changed, &mutex);
		} else {
			while (!kicked &&
			       pthread_cond_timedwait(&changed, &mutex, &until) != ETIMEDOUT)
				;
		}
		kicked = false;
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void start_progress(void)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	pthread_t thread;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	sigfillset(&all); /* as the progress thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_create(&thread, NULL, progress, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_detach(thread);
}

void wait_until_quiet(void)
{
	pthread_mutex_lock(&mutex);
	while (!quiet)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

static uint32_t visit(hazard_check *check, uint64_t what)
{
	return check(own_arena, what) ? 1 : check(peer_arena, what) ? 2 : 0;
}

char *make_region(size_t bytes)
{
	char *region =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(region != MAP_FAILED);
	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *)region)[i] = i * 31;
	return region;
}

bool is_region(const char *region, size_t bytes)
{
	size_t i = 0;

	while (i < bytes / 8 && ((const uint64_t *)region)[i] == i * 31)
		i++;
	return i == bytes / 8;
}

void check_region(const char *region, size_t bytes)
{
	assert_true(is_region(region, bytes));
}

uint32_t make_key(char *addr, size_t bytes, uint32_t flags)
{
	struct arena_key *entry;
	uint32_t index, key;

	assert_int_equal(key_alloc(&index, &key), 0);
	entry = key_entry(index);
	entry->addr = entry->start = (uintptr_t)addr;
	entry->length = bytes;
	entry->flags = flags;
	entry->pd = 1;
	entry->access = IBV_ACCESS_REMOTE_WRITE;
	key_publish(index, key);
	return key;
}

void end_key(uint32_t key)
{
	struct arena_key *entry = key_entry(KEY_INDEX(key));

	key_revoke(KEY_INDEX(key));
	migrate_wait_out(entry->addr, entry->length);
	key_free(KEY_INDEX(key));
}

uint64_t heap_of(uint32_t key)
{
	return key_entry(KEY_INDEX(key))->heap;
}

uint32_t flags_of(uint32_t key)
{
	return key_entry(KEY_INDEX(key))->flags;
}

void ask(uint32_t key)
{
	assert_true(migrate_request(key));
	wait_until_quiet();
}

uint64_t peek(uint64_t offset)
{
	uint64_t word = 0;

	assert_int_equal(pread(heap_fd, &word, sizeof(word), (off_t)offset), sizeof(word));
	return word;
}

struct move_range make_range(char *region)
{
	struct move_range range = {
		.start = (uintptr_t)region,
		.end = (uintptr_t)region + BYTES,
		.offset = PLACE,
		.aside = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0),
	};

	assert_true(range.aside != MAP_FAILED);
	return range;
}

void *keep_writing(void *arg)
{
	struct writer *writer = arg;

	for (; !atomic_load_explicit(&writer->stop, memory_order_relaxed); writer->writes++)
		for (int i = 0; i < 3; i++) {
			volatile uint64_t *word = writer->words[i];

			*word = *word + 1;
		}
	return NULL;
}

struct look {
	uintptr_t at;
	bool is_shared;
};

static bool visit_mapping(const struct mapping *m, void *arg)
{
	struct look *look = arg;

	if (look->at >= m->start && look->at < m->end)
		look->is_shared =
			m->inode == heap.inode && m->device == heap.device && m->rights[3] == 's';
	return m->end <= look->at;
}

bool is_shared(const char *at)
{
	struct look look = { .at = (uintptr_t)at };

	assert_int_equal(maps_visit(visit_mapping, &look), 0);
	return look.is_shared;
}

void wait_until_private(const char *at)
{
	for (int i = 0; i < 3000 && is_shared(at); i++)
		usleep(1000);
	assert_false(is_shared(at));
}

#define ASK_NS UINT64_C(300000000)

/* As a peer finds it: the place in the heap is stored first, MOVING is cleared then. */
static bool has_migrated(uint32_t key)
{
	return heap_of(key) && !(flags_of(key) & KEY_MOVING);
}

bool poll_until_migrated(uint32_t key, unsigned ms)
{
	uint64_t now = clock_now_ns(), end = now + ms * UINT64_C(1000000), ask = now + ASK_NS;

	for (; !has_migrated(key) && !(flags_of(key) & KEY_STAYS) && now < end;
	     now = clock_now_ns()) {
		if (now >= ask) {
			migrate_request(key);
			ask = now + ASK_NS;
		}
		hold_point();
	}
	return has_migrated(key);
}

bool request_and_poll(uint32_t key, unsigned ms)
{
	assert_true(migrate_request(key));
	return poll_until_migrated(key, ms);
}

bool is_private_of_heap(const char *at)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, inode;
	struct stat st;
	char line[512], rights[5];
	bool found = false;

	assert_non_null(maps);
	assert_int_equal(fstat(heap_fd, &st), 0);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, rights, &inode) == 4 &&
		    (uintptr_t)at >= start && (uintptr_t)at < end)
			found = inode == st.st_ino && rights[3] == 'p';
	fclose(maps);
	return found;
}

void add_sanitizer_threads(void)
{
	uint64_t threads;

	assert_int_equal(status_number("Threads", &threads), 0);
	for (; threads > 2; threads--)
		hold_add_own_thread();
}

void migrate_world_start(void)
{
	struct move_range range;
	char *probe;

	/* the parent may have set SIG_IGN: waitpid would find no child */
	signal(SIGCHLD, SIG_DFL);

	own_arena = harness_arena();
	memory_init(HARNESS_SLOT);
	peer_arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	hazard_set_visitor(visit);
	heap_fd = memfd_create("test-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (heap_fd < 0 || ftruncate(heap_fd, HEAP) ||
	    fcntl(heap_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) ||
	    move_init(&heap, heap_fd, MOVE_IF_SAFE))
		exit(1);
	migrate_init(heap_fd, HEAP, kick);
	pthread_atfork(migrate_before_fork, migrate_in_parent, migrate_in_child);

	probe = make_region(BYTES);
	range = make_range(probe);
	if (move_check(&heap, range.start, range.end) || move_in(&heap, &range)) {
		printf("skipped: userfaultfd cannot hold back the kernel's writes here\n");
		exit(77);
	}
	if (move_out(&heap, &range))
		exit(1);
	munmap(probe, BYTES);
	munmap(range.aside, BYTES);
	start_progress();
}
