#include "object/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "object/heap.h"
#include "object/key.h"
#include "object/touch.h"

#define PAGE	     4096ull
#define HEAP_FIRST   (2ull << 20) /* offset 0 means "not in the heap" */
#define RANGES_MAX   1024
#define RANGE_MAX    (1ull << 30) /* the pump does nothing else while it moves */
#define MARKS_MAX    256	  /* keys over one range */
#define REQUESTS_MAX 64
#define DRAIN_MS     50
#define CHILD_MS     10000
#define STACK_NEAR   (256 * 1024ull) /* a stack that is not the thread's own */

struct range {
	uintptr_t start, end; /* whole pages */
	uint64_t offset;      /* in the heap */
	bool stuck;	      /* still mapped somewhere, though no key leads there: it is not used again */
};

struct lock adopt_lock = LOCK_INITIALIZER;
static struct move_heap heap GUARDED_BY(adopt_lock);
static uint64_t heap_bytes GUARDED_BY(adopt_lock);
static struct range ranges[RANGES_MAX] GUARDED_BY(adopt_lock); /* by offset */
static unsigned range_count GUARDED_BY(adopt_lock);
static uint32_t marked[MARKS_MAX] GUARDED_BY(adopt_lock); /* keys that are MOVING */
static unsigned marked_count GUARDED_BY(adopt_lock);
static int fork_pipe[2] GUARDED_BY(adopt_lock) = { -1, -1 };

static void no_kick(void)
{
}

static _Atomic uint32_t requests[REQUESTS_MAX];
static void (*kick)(void) = no_kick;
static struct heap own = { .fd = -1 }; /* the same heap as it is mapped here */

enum move_permission adopt_wish(void)
{
	const char *wish = secure_getenv("VERBATIM_ADOPT");

	if (wish && !strcmp(wish, "never"))
		return MOVE_NEVER;
	return wish && !strcmp(wish, "always") ? MOVE_ALWAYS : MOVE_IF_SAFE;
}

void adopt_init(int heap_fd, uint64_t bytes, void (*kick_pump)(void))
{
	lock_acquire(&adopt_lock);
	heap_bytes = move_init(&heap, heap_fd, adopt_wish()) ? 0 : bytes;
	range_count = 0;
	kick = kick_pump;
	heap.own = &own;
	heap_fini(&own);
	heap_init(&own, heap_bytes ? fcntl(heap_fd, F_DUPFD_CLOEXEC, 0) : -1);
	lock_release(&adopt_lock);
}

/* ------------------------------------------------------------------------------------------
 * Keys over a range.
 */

static bool overlaps(const struct arena_key *entry, uintptr_t start, uintptr_t end)
{
	uint64_t last = entry->addr + entry->length;

	if (last < entry->addr)
		last = UINT64_MAX;
	return entry->addr < end && last > start;
}

static struct arena_key *entry_of(uint32_t key)
{
	return key_entry(KEY_INDEX(key));
}

static void unmark(void) REQUIRES(adopt_lock)
{
	for (unsigned i = 0; i < marked_count; i++)
		atomic_fetch_and(&entry_of(marked[i])->flags, ~(uint32_t)KEY_MOVING);
	marked_count = 0;
}

/* Keeps all peers away from the range. -EAGAIN: they would not go; -E2BIG: too many keys. */
static int mark(uintptr_t start, uintptr_t end) REQUIRES(adopt_lock)
{
	uint32_t count = key_count();
	int error = 0;

	for (uint32_t i = 1; i < count && !error; i++) {
		struct arena_key *entry = key_entry(i);
		uint32_t key = atomic_load_explicit(&entry->key, memory_order_acquire);

		if (!key || !overlaps(entry, start, end))
			continue;
		if (marked_count == MARKS_MAX) {
			error = -E2BIG;
			break;
		}
		marked[marked_count++] = key;
		atomic_fetch_or(&entry->flags, KEY_MOVING);
	}
	if (!error && !touch_drain(marked, marked_count, DRAIN_MS))
		error = -EAGAIN;
	if (error)
		unmark();
	return error;
}

/* Where in the heap the entry's region is, if it is all in the range; else 0. */
static uint64_t place_in(const struct range *range, const struct arena_key *entry)
{
	if (range->stuck || (entry->flags & (KEY_ON_DEMAND | KEY_NULL)) || !entry->length ||
	    entry->addr < range->start || entry->addr >= range->end ||
	    entry->length > range->end - entry->addr)
		return 0;
	return range->offset + (entry->addr - range->start);
}

void adopt_on_birth(struct arena_key *entry)
{
	uint64_t place = 0;

	for (unsigned i = 0; i < range_count && !place; i++) {
		struct range *range = &ranges[i];

		place = place_in(range, entry);
		/* what lies there now may be mapped anew, while an older key still leads to the heap */
		if (place && !move_is_there(&heap, range->start, range->end, range->offset))
			place = 0;
	}
	atomic_store_explicit(&entry->heap, place, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------------------
 * Ranges.
 */

/* A place in the heap for so many bytes; 0: there is none. *index: where it goes in `ranges`. */
static uint64_t find_room(uint64_t bytes, unsigned *index) REQUIRES(adopt_lock)
{
	uint64_t offset = HEAP_FIRST;
	unsigned i;

	if (range_count == RANGES_MAX)
		return 0;
	for (i = 0; i < range_count && ranges[i].offset - offset < bytes + PAGE; i++)
		offset = ranges[i].offset + (ranges[i].end - ranges[i].start) + PAGE;
	*index = i;
	return offset + bytes <= heap_bytes ? offset : 0;
}

static void insert(unsigned index, struct range range) REQUIRES(adopt_lock)
{
	memmove(&ranges[index + 1], &ranges[index], (range_count - index) * sizeof(*ranges));
	ranges[index] = range;
	range_count++;
}

static void drop(unsigned index) REQUIRES(adopt_lock)
{
	range_count--;
	memmove(&ranges[index], &ranges[index + 1], (range_count - index) * sizeof(*ranges));
}

static void give_back(const struct range *range) REQUIRES(adopt_lock)
{
	/* if this fails only memory is lost: what is put there next overwrites all of it */
	if (fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range->offset,
		      (off_t)(range->end - range->start)))
		return;
}

/*
 * Before there is a key that leads there, so that no other thread maps a window while move_out looks at what
 * is mapped.
 */
static void map_own(uint64_t offset, uint64_t bytes)
{
	size_t mapped;

	for (uint64_t done = 0; done < bytes; done += mapped) {
		mapped = bytes - done;
		if (!heap_map(&own, offset + done, &mapped))
			return;
	}
}

/* 0 or -errno: the pages stay where they are. */
static int move_in(struct range range) REQUIRES(adopt_lock)
{
	uint64_t bytes = range.end - range.start;
	unsigned index;
	int error;

	if (!bytes || bytes > RANGE_MAX)
		return -E2BIG;
	range.offset = find_room(bytes, &index);
	if (!range.offset)
		return -ENOSPC;
	error = mark(range.start, range.end);
	if (error)
		return error;
	map_own(range.offset, bytes);
	error = move_to_heap(&heap, range.start, range.end, range.offset);
	if (error)
		give_back(&range);
	else
		insert(index, range);
	for (unsigned i = 0; i < marked_count && !error; i++) {
		struct arena_key *entry = entry_of(marked[i]);
		uint64_t place = place_in(&range, entry);

		if (place)
			atomic_store_explicit(&entry->heap, place, memory_order_release);
	}
	unmark();
	return error;
}

static bool is_in(const struct range *range, uint64_t offset)
{
	return offset >= range->offset && offset - range->offset < range->end - range->start;
}

/* Gives the pages back to the program. Keys that lead there are good, by other means, from now on. */
static void move_out(unsigned index) REQUIRES(adopt_lock)
{
	struct range *range = &ranges[index];

	if (mark(range->start, range->end)) {
		range->stuck = true;
		return;
	}
	for (unsigned i = 0; i < marked_count; i++) {
		struct arena_key *entry = entry_of(marked[i]);

		if (!is_in(range, entry->heap))
			continue;
		atomic_store_explicit(&entry->heap, 0, memory_order_relaxed);
		atomic_fetch_or(&entry->flags, KEY_STAYS);
	}
	if (move_to_private(&heap, range->start, range->end, range->offset)) {
		range->stuck = true;
	} else {
		give_back(range);
		drop(index);
	}
	unmark();
}

/* Alive there, or dying: who touches the pages by a key that is dying may not be done. */
static bool has_keys(const struct range *range) REQUIRES(adopt_lock)
{
	uint32_t count = key_count();

	for (uint32_t i = 1; i < count; i++) {
		struct arena_key *entry = key_entry(i);

		if (is_in(range, entry->heap) ||
		    (entry->flags & KEY_DYING && overlaps(entry, range->start, range->end)))
			return true;
	}
	return false;
}

void adopt_on_death(struct arena_key *entry)
{
	int saved = errno;

	lock_acquire(&adopt_lock);
	atomic_fetch_and(&entry->flags, ~(uint32_t)KEY_DYING);
	atomic_store_explicit(&entry->heap, 0, memory_order_relaxed);
	for (unsigned i = range_count; i-- > 0;)
		if (overlaps(entry, ranges[i].start, ranges[i].end) && !ranges[i].stuck &&
		    !has_keys(&ranges[i]))
			move_out(i);
	lock_release(&adopt_lock);
	errno = saved;
}

/* ------------------------------------------------------------------------------------------
 * Requests.
 */

static bool is_noted(uint32_t key)
{
	for (unsigned i = 0; i < REQUESTS_MAX; i++) {
		uint32_t none = 0;

		if (atomic_load_explicit(&requests[i], memory_order_relaxed) == key)
			return true;
		if (atomic_compare_exchange_strong(&requests[i], &none, key))
			return true;
	}
	return false;
}

bool adopt_request(uint32_t key)
{
	if (!is_noted(key))
		return false;
	kick();
	return true;
}

void adopt_fini(void)
{
	lock_acquire(&adopt_lock);
	heap_fini(&own);
	lock_release(&adopt_lock);
}

void adopt_want(uint32_t key, uint64_t length, size_t bytes)
{
	if (heap_pays(&own, key, length, bytes) && adopt_request(key))
		heap_asked(&own, key);
}

char *adopt_map(const struct arena_key *entry, uint64_t host, size_t bytes)
{
	uint64_t place = atomic_load_explicit(&entry->heap, memory_order_acquire);
	size_t mapped = bytes;
	char *at = place ? heap_map(&own, place + (host - entry->addr), &mapped) : NULL;

	return mapped == bytes ? at : NULL;
}

static void grant(uint32_t key) REQUIRES(adopt_lock)
{
	struct arena_key *entry = entry_of(key);
	struct range range;
	int error;

	if (!mr_keys() || atomic_load_explicit(&entry->key, memory_order_acquire) != key ||
	    entry->heap || (entry->flags & KEY_STAYS))
		return;
	range = (struct range){
		.start = entry->addr & ~(PAGE - 1),
		.end = (entry->addr + entry->length + PAGE - 1) & ~(PAGE - 1),
	};
	if ((entry->flags & (KEY_ON_DEMAND | KEY_NULL)) || entry->length < ADOPT_REGION_MIN ||
	    range.end <= range.start)
		error = -EINVAL;
	else
		error = move_in(range);
	if (error && error != -EAGAIN && error != -EBUSY)
		atomic_fetch_or(&entry->flags, KEY_STAYS);
}

void adopt_run(void)
{
	for (unsigned i = 0; i < REQUESTS_MAX; i++) {
		uint32_t key;

		if (!atomic_load_explicit(&requests[i], memory_order_relaxed))
			continue;
		key = atomic_exchange(&requests[i], 0);
		lock_acquire(&adopt_lock);
		grant(key);
		lock_release(&adopt_lock);
	}
}

/* ------------------------------------------------------------------------------------------
 * Forks.
 */

/* The stack of the calling thread, which parent and child must not share for a moment. */
static void find_stack(uintptr_t *start, uintptr_t *end)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	pthread_attr_t attr;
	void *base;
	size_t bytes;

	*start = here - STACK_NEAR;
	*end = here + STACK_NEAR;
	/* the first thread's grows, and is never moved (object/move.c) */
	if (gettid() == getpid() || pthread_getattr_np(pthread_self(), &attr))
		return;
	if (!pthread_attr_getstack(&attr, &base, &bytes) && (uintptr_t)base < *start)
		*start = (uintptr_t)base;
	if ((uintptr_t)base + bytes > *end)
		*end = (uintptr_t)base + bytes;
	pthread_attr_destroy(&attr);
}

void adopt_before_fork(void)
{
	uintptr_t start, end;

	lock_acquire(&adopt_lock);
	if (!range_count)
		return;
	find_stack(&start, &end);
	for (unsigned i = range_count; i-- > 0;)
		if (ranges[i].start < end && ranges[i].end > start)
			move_out(i);
	if (range_count && pipe2(fork_pipe, O_CLOEXEC))
		fork_pipe[0] = fork_pipe[1] = -1;
}

static void close_pipe_end(int i) REQUIRES(adopt_lock)
{
	if (fork_pipe[i] >= 0)
		close(fork_pipe[i]);
	fork_pipe[i] = -1;
}

/* The child says that it is done by closing its end, whatever becomes of it. */
void adopt_in_parent(void)
{
	struct pollfd done = { .fd = fork_pipe[0], .events = POLLIN };
	int saved = errno;

	close_pipe_end(1);
	if (done.fd >= 0)
		while (poll(&done, 1, CHILD_MS) < 0 && errno == EINTR)
			;
	close_pipe_end(0);
	errno = saved;
	lock_release(&adopt_lock);
}

void adopt_in_child(void) NO_LOCK_CHECK
{
	for (unsigned i = 0; i < range_count; i++)
		move_in_child(&heap, ranges[i].start, ranges[i].end, ranges[i].offset);
	range_count = marked_count = 0;
	heap_bytes = 0;
	heap_forget(&own);
	for (unsigned i = 0; i < REQUESTS_MAX; i++)
		atomic_store(&requests[i], 0);
	close_pipe_end(0);
	close_pipe_end(1);
	lock_init(&adopt_lock);
}
