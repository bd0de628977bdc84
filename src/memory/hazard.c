/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/hazard.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * Lines below OWNED_LINES belong to a thread each. Of those above, threads without a line share the
 * first entries.
 *
 * Waiting for a shared entry ends. A thread that has n of them takes its next one at level n. A
 * thread with an entry of level n waits, if at all, at level n + 1. A thread with one of the last
 * level does not wait: it has hazards on the remote region, on the local one, and on the region of
 * another process that the local one stands for (memory/imported.h), and needs no more. So the last
 * level becomes free, therefore the one below it, and so on.
 */
#define OWNED_LINES (ARENA_HAZARD_LINES - 16)
#define LEVELS	    ARENA_LINE_HAZARDS
#define NO_LINE	    (-1)
#define TAKEN	    1ull	 /* the holder is being written; no valid key has slot 0 */
#define IN_HEAP	    (1ull << 63) /* by hazard_set_in_heap; slots are smaller */

/* The pauses between scans: most copies are over in some microseconds. */
#define YIELDS		4
#define PAUSE_MIN_NS	20000ull
#define PAUSE_DOUBLINGS 8

/* How a barrier is executed in all processes that share memory, best first. */
enum barrier {
	BARRIER_EXPEDITED, /* interrupts the processors that run a registered process */
	BARRIER_GLOBAL,	   /* waits until each processor has entered the kernel */
	BARRIER_FENCE,	   /* no membarrier here: hazard_set has a fence, revokers wait */
};

static void *own_arena;
static uint32_t own_slot;
static _Atomic(hazard_visitor *) visitor;
static enum barrier barrier_kind;
static _Atomic bool owned[OWNED_LINES];
static const unsigned level_begin[LEVELS + 1] = { OWNED_LINES, OWNED_LINES + 8, OWNED_LINES + 12,
						  ARENA_HAZARD_LINES };
/*
 * The thread that took a shared entry last, as the address of its own_line. It holds the entry
 * until it clears it.
 */
static _Atomic uintptr_t holders[ARENA_HAZARD_LINES];
static pthread_key_t owner_key;
static pthread_once_t owner_once = PTHREAD_ONCE_INIT;

/* initial-exec: four bytes of the static block, for an access without a call. */
static _Thread_local int own_line __attribute__((tls_model("initial-exec"))) = NO_LINE;

static int membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

/* A thread ends, and releases its line to others. The value is the line's number, from 1. */
static void give_back(void *value)
{
	own_line = NO_LINE;
	atomic_store(&owned[(intptr_t)value - 1], false);
}

static void make_owner_key(void)
{
	pthread_key_create(&owner_key, give_back);
}

void hazard_init(void *arena, uint32_t slot)
{
	pthread_once(&owner_once, make_owner_key);
	if (membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0)
		barrier_kind = BARRIER_EXPEDITED;
	else if (membarrier(MEMBARRIER_CMD_QUERY) > 0)
		barrier_kind = BARRIER_GLOBAL;
	else
		barrier_kind = BARRIER_FENCE;
	own_slot = slot;
	own_arena = arena;
}

void hazard_reset_after_fork(void)
{
	own_arena = NULL;
	atomic_store(&visitor, NULL);
	for (unsigned i = 0; i < OWNED_LINES; i++)
		atomic_store(&owned[i], false);
	if (own_line != NO_LINE)
		pthread_setspecific(owner_key, NULL);
	own_line = NO_LINE;
}

void hazard_set_visitor(hazard_visitor *visit)
{
	atomic_store(&visitor, visit);
}

static void claim_line(void)
{
	for (int i = 0; i < OWNED_LINES; i++) {
		if (atomic_exchange(&owned[i], true))
			continue;
		if (pthread_setspecific(owner_key, (void *)(intptr_t)(i + 1)) != 0) {
			atomic_store(&owned[i], false);
			return;
		}
		own_line = i;
		return;
	}
}

static struct arena_hazard *shared_entry(unsigned i)
{
	return arena_hazard_lines(own_arena)[i].hazards;
}

/* Exact: while its holder is being written, the entry says TAKEN. */
static bool is_held_by(unsigned i, uintptr_t holder)
{
	uint64_t what = atomic_load_explicit(&shared_entry(i)->what, memory_order_acquire);

	/* Barrier HOLDER, reader: the entry is loaded before its holder. */
	return what != 0 && what != TAKEN &&
	       atomic_load_explicit(&holders[i], memory_order_relaxed) == holder;
}

static bool take(unsigned i, uintptr_t holder, uint64_t what)
{
	struct arena_hazard *hazard = shared_entry(i);
	uint64_t free_entry = 0;

	if (!atomic_compare_exchange_strong(&hazard->what, &free_entry, TAKEN))
		return false;
	atomic_store_explicit(&holders[i], holder, memory_order_relaxed);
	/* Barrier HOLDER, holder: it is stored before the entry. */
	atomic_store_explicit(&hazard->what, what, memory_order_release);
	return true;
}

static unsigned find_level(uintptr_t holder)
{
	unsigned hazards = 0;

	for (unsigned i = OWNED_LINES; i < ARENA_HAZARD_LINES; i++)
		hazards += is_held_by(i, holder);
	return hazards < LEVELS ? hazards : LEVELS - 1;
}

/* For a thread without a line. */
static struct arena_hazard *publish_shared(uint64_t what)
{
	uintptr_t holder = (uintptr_t)&own_line;
	unsigned level = find_level(holder);

	for (;;) {
		for (unsigned i = level_begin[level]; i < level_begin[level + 1]; i++)
			if (take(i, holder, what))
				return shared_entry(i);
		sched_yield();
	}
}

static struct arena_hazard *publish(uint64_t what)
{
	struct arena_hazard *hazard;

	if (own_line == NO_LINE)
		claim_line();
	if (own_line == NO_LINE)
		return publish_shared(what);
	hazard = arena_hazard_lines(own_arena)[own_line].hazards;
	for (unsigned i = 0; i < ARENA_LINE_HAZARDS; i++, hazard++) {
		if (atomic_load_explicit(&hazard->what, memory_order_relaxed))
			continue;
		atomic_store_explicit(&hazard->what, what, memory_order_release);
		return hazard;
	}
	/* A signal handler has left copies by longjmp(3). */
	return publish_shared(what);
}

static struct arena_hazard *begin(uint64_t what)
{
	struct arena_hazard *hazard = publish(what);

	/*
	 * Barrier HAZARD, copier: the store of `what` precedes the load of the key that follows.
	 * The processor may reorder them; the revoker's hazard_barrier compensates.
	 */
	if (barrier_kind == BARRIER_FENCE)
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	return hazard;
}

struct arena_hazard *hazard_set(uint32_t slot, uint32_t key)
{
	return begin((uint64_t)slot << 32 | key);
}

struct arena_hazard *hazard_set_in_heap(uint32_t slot, uint32_t key)
{
	return begin((uint64_t)slot << 32 | key | IN_HEAP);
}

/* Release: the copier's accesses to the heap precede it. */
void hazard_leave_heap(struct arena_hazard *hazard)
{
	uint64_t what = atomic_load_explicit(&hazard->what, memory_order_relaxed);

	atomic_store_explicit(&hazard->what, what & ~IN_HEAP, memory_order_release);
}

static bool has_entry(void *arena, uint64_t what, uint64_t mask)
{
	for (unsigned i = 0; i < ARENA_HAZARDS; i++) {
		uint64_t entry =
			atomic_load_explicit(&arena_hazard(arena, i)->what, memory_order_acquire);

		if ((entry & mask) == what)
			return true;
	}
	return false;
}

static bool publishes(void *arena, uint64_t what)
{
	return has_entry(arena, what, ~IN_HEAP);
}

/*
 * The userfaultfd guard stops threads of this process at the program's addresses, and nothing else.
 */
static bool publishes_unguarded(void *arena, uint64_t what)
{
	return arena == own_arena ? has_entry(arena, what | IN_HEAP, UINT64_MAX)
				  : publishes(arena, what);
}

bool hazard_barrier_works(void)
{
	return barrier_kind != BARRIER_FENCE;
}

/*
 * Barrier HAZARD, revoker: the key was zeroed before. After this, the revoker sees each copier's
 * entry, or the copier sees the zero.
 */
void hazard_barrier(void)
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	atomic_thread_fence(memory_order_seq_cst);
	switch (barrier_kind) {
	case BARRIER_EXPEDITED:
		if (membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0)
			return;
		__attribute__((fallthrough));
	case BARRIER_GLOBAL:
		if (membarrier(MEMBARRIER_CMD_GLOBAL) == 0)
			return;
		__attribute__((fallthrough));
	case BARRIER_FENCE:
		/*
		 * copiers of this process have a fence; store buffers of others are empty by then
		 */
		nanosleep(&millisecond, NULL);
	}
}

static uint32_t find_owner(uint32_t key, hazard_check *check)
{
	uint64_t what = (uint64_t)own_slot << 32 | key;
	hazard_visitor *visit = atomic_load(&visitor);

	if (visit)
		return visit(check, what);
	return check(own_arena, what) ? (uint32_t)getpid() : 0;
}

uint32_t hazard_owner(uint32_t key)
{
	return find_owner(key, publishes);
}

bool hazard_drain(const uint32_t *keys, unsigned count, unsigned ms)
{
	const struct timespec pause = { .tv_nsec = 20000 };
	uint64_t end_ns;

	hazard_barrier();
	end_ns = clock_now_ns() + ms * UINT64_C(1000000);
	for (unsigned i = 0; i < count; i++) {
		while (find_owner(keys[i], publishes_unguarded)) {
			nanosleep(&pause, NULL);
			if (clock_now_ns() >= end_ns)
				return false;
		}
	}
	return true;
}

uint64_t hazard_pause_ns(uint32_t scans)
{
	if (scans < YIELDS)
		return 0;
	scans -= YIELDS;
	return PAUSE_MIN_NS << (scans < PAUSE_DOUBLINGS ? scans : PAUSE_DOUBLINGS);
}

bool hazard_wait(struct hazard_wait *wait)
{
	struct timespec pause = { .tv_nsec = (long)hazard_pause_ns(wait->scans) };
	int saved = errno;

	if (!wait->scans++)
		wait->begin_ns = clock_now_ns();
	if (pause.tv_nsec)
		nanosleep(&pause, NULL);
	else
		sched_yield();
	errno = saved;
	return clock_now_ns() - wait->begin_ns < HAZARD_WAIT_MS * 1000000ull;
}
