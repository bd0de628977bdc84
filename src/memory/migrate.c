/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/clock.h"
#include "memory/change.h"
#include "memory/heap.h"
#include "memory/hold.h"
#include "memory/key.h"
#include "memory/maps.h"
#include "memory/requests.h"
#include "memory/sparse.h"

#define RANGE_MAX   (1ull << 30) /* its peers send messages while it moves */
#define SCAN_NS	    1000000ull	 /* between two scans for hazards on a range */
#define DRAIN_NS    50000000ull	 /* then the range is refused or put off */
#define PUT_OFF_MIN 10000000ull
#define PUT_OFF_MAX 1000000000ull
#define WAIT_S	    5 /* a thread waits so long for a progress thread that moves nothing */
/* Holds (memory/hold.h). */
#define HOLD_NS	      3000000ull    /* then the threads go on; a slice under way ends first */
#define STAND_NS      10000000ull   /* pages that leave wait so long for a hold */
#define GIVE_UP_NS    1000000000ull /* pages on their way in do */
#define OFFER_BYTES   (4ull << 20)  /* regions that are offered when they are registered */
#define OFFERED_BYTES (32ull << 20) /* all together: what nobody addresses moves in vain */
#define OFFERED_MAX   (RANGES_MAX / 4)
#define REPORTS_MAX   8
#define OFFER_WAIT_MS 500

static bool held; /* progress thread: during a hold */
/* Progress thread: regions that stay, to be reported. */
static struct report {
	uint64_t addr, length;
	int error;
} reports[REPORTS_MAX];
static unsigned report_count;
static unsigned forks GUARDED_BY(range_lock);  /* threads that are about to fork, or fork */
static bool forking GUARDED_BY(range_lock);    /* one of them forks: no pages move */
static bool in_slice GUARDED_BY(range_lock);   /* pages move right now: no thread forks */
static _Atomic bool due;		       /* migrate_run has something to do */
static struct move_heap heap = { .maps = -1 }; /* since migrate_init */
static uint64_t heap_bytes;
static struct move_copies copies; /* the forking thread's */

static void no_kick(void)
{
}

static void (*kick)(void) = no_kick;
static struct heap own = { .fd = -1 }; /* the same heap as it is mapped here */

enum move_permission migrate_wish(void)
{
	const char *wish = secure_getenv("VERBATIM_MIGRATE");

	if (wish && !strcmp(wish, "never"))
		return MOVE_NEVER;
	if (wish && !strcmp(wish, "held"))
		return MOVE_HELD;
	return wish && !strcmp(wish, "always") ? MOVE_ALWAYS : MOVE_IF_SAFE;
}

static void call_progress_thread(void)
{
	atomic_store(&due, true);
	kick();
}

static void close_maps(void)
{
	if (heap.maps >= 0)
		close(heap.maps);
	heap.maps = -1;
}

void migrate_init(int heap_fd, uint64_t bytes, void (*wake_progress_thread)(void))
{
	enum move_permission wish = migrate_wish();

	lock_acquire(&range_lock);
	close_maps();
	heap_bytes = move_init(&heap, heap_fd, wish) ? 0 : bytes;
	range_init();
	kick = wake_progress_thread;
	hold_init(call_progress_thread);
	heap.own = &own;
	heap_fini(&own);
	heap_init_own(&own,
		      heap_bytes && wish != MOVE_NEVER ? fcntl(heap_fd, F_DUPFD_CLOEXEC, 0) : -1);
	lock_release(&range_lock);
}

void migrate_fini(void)
{
	lock_acquire(&range_lock);
	heap_fini(&own);
	close_maps();
	lock_release(&range_lock);
}

/*
 * ------------------------------------------------------------------------------------------
 * Waiting for the progress thread.
 */

/*
 * change_wait. The thread stands meanwhile if that is needed, and the progress thread is told so.
 */
static bool wait_for_change(uint32_t seen, unsigned ms)
{
	struct hold_stay stay = { .place = -1 };
	bool changed;

	if (heap.needs_hold) {
		hold_stand(&stay);
		call_progress_thread();
	}
	changed = change_wait(seen, ms);
	hold_go(&stay);
	return changed;
}

static struct arena_key *entry_of(uint32_t key)
{
	return key_entry(KEY_INDEX(key));
}

/*
 * ------------------------------------------------------------------------------------------
 * Keys that are published and revoked.
 */

/*
 * Publishes the place that the region has already, with an older key. The program may have mapped
 * other memory there since. -EAGAIN: that cannot be seen now. Copiers that find no place meanwhile
 * use the same pages, at the program's address.
 */
static int publish_place(struct arena_key *entry) REQUIRES(range_lock)
{
	const struct range *range = range_find_settled(entry);
	int error = range ? move_check_there(&heap, range->start, range->end, range->offset) : 0;

	if (range && !error)
		range_publish(range, entry);
	return error == -EAGAIN ? error : 0;
}

void migrate_on_publish(struct arena_key *entry)
{
	atomic_fetch_and(&entry->flags, ~(uint32_t)KEY_MOVING);
	atomic_store_explicit(&entry->heap, 0, memory_order_relaxed);
	for (unsigned i = 0; i < range_count; i++)
		if (!ranges[i].settled && range_overlaps(&ranges[i], entry))
			atomic_fetch_or(&entry->flags, KEY_MOVING);
	publish_place(entry); /* if that cannot be seen now, when a peer asks for it */
}

void migrate_on_revoke(struct arena_key *entry)
{
	bool any = requests_drop(entry->dying); /* REQUEST: its key is zero */

	lock_acquire(&range_lock);
	atomic_fetch_and(&entry->flags, ~(uint32_t)(KEY_DYING | KEY_MOVING));
	atomic_store_explicit(&entry->heap, 0, memory_order_relaxed);
	for (unsigned i = 0; i < range_count; i++)
		if (range_overlaps(&ranges[i], entry)) {
			ranges[i].put_off = false;
			ranges[i].next_ns = 0;
			any = true;
		}
	lock_release(&range_lock);
	if (any)
		call_progress_thread();
}

/*
 * ------------------------------------------------------------------------------------------
 * Ranges: the progress thread alone makes and drops them.
 */

static bool belongs_out(struct range *range) REQUIRES(range_lock)
{
	return forks || range->refused || !range_is_needed(range);
}

/* Frees the memory of a place that is mapped nowhere. It reads as zeroes, unless this fails. */
static void free_place(uint64_t offset, uint64_t bytes)
{
	if (fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)bytes))
		return;
}

/*
 * There was userfaultfd when the adapter was made, but the process may not use it any more: it has
 * given up its rights (setuid, seccomp). From here on pages move during holds.
 */
static int on_lost_guard(int error)
{
	if (error != -EPERM || heap.needs_hold || heap.permission == MOVE_NEVER)
		return error;
	heap.needs_hold = true;
	return -EAGAIN;
}

static int make_range(uint32_t key, uint64_t now) REQUIRES(range_lock)
{
	struct range range = { .key = key, .since_ns = now };
	struct range *made;
	int error;

	if (range_key_is_elsewhere(entry_of(key)) ||
	    !range_find_pages(entry_of(key), &range.start, &range.end))
		return -EDOM;
	if (range.end - range.start > RANGE_MAX)
		return -E2BIG;
	error = range_find_overlap(range.start, range.end);
	/* by this thread, which lives as long as the process: a later fork may find no descriptor
	 */
	if (!error && heap.maps < 0 && (heap.maps = maps_open()) < 0)
		error = heap.maps;
	if (!error)
		error = move_check(&heap, range.start, range.end);
	if (error)
		return on_lost_guard(error);
	if (!range_insert(&range, heap_bytes, &made))
		return range_count == RANGES_MAX ? -EAGAIN : -ENOSPC;
	if (range_place_was_retired(made)) /* pages were seen there until they were unmapped */
		free_place(made->offset, range_bytes_and_room(made));
	heap_map_all(&own, made->offset, made->end - made->start);
	range_update_keys(made);
	return 0;
}

static bool is_for_good(int error)
{
	return error && error != -EAGAIN && error != -EBUSY;
}

static const char *why_stays(int error)
{
	switch (error) {
	case -EPERM:
		return heap.permission == MOVE_NEVER
			       ? "VERBATIM_MIGRATE is never"
			       : "the process has locked pages, or cannot see its threads";
	case -EACCES:
		return "it is not all private memory";
	case -EDOM:
		return "no page lies wholly within it";
	case -E2BIG:
		return "it is too long";
	case -ENOSPC:
		return "too many regions have migrated";
	default:
		return strerror(-error);
	}
}

static void stay(uint32_t key, int error)
{
	struct arena_key *entry = entry_of(key);

	if (!is_for_good(error) || !range_key_is_alive(entry) ||
	    atomic_fetch_or(&entry->flags, KEY_STAYS) & KEY_STAYS || report_count == REPORTS_MAX)
		return;
	reports[report_count++] = (struct report){ entry->addr, entry->length, error };
}

/* After a hold: who reads what is reported may be a pipe that is full. */
static void make_reports(void) EXCLUDES(range_lock)
{
	for (unsigned i = 0; i < report_count; i++)
		cause_report(CAUSE_REGION_STAYS, 0, "0x%llx, %llu bytes: %s",
			     (unsigned long long)reports[i].addr,
			     (unsigned long long)reports[i].length, why_stays(reports[i].error));
	report_count = 0;
}

static void drop_aside(struct range *range)
{
	if (range->aside)
		munmap(range->aside, range_bytes_and_room(range));
	range->aside = NULL;
}

/*
 * All in: publishes it in its keys, unless the program has mapped something else there meanwhile.
 */
static void settle(struct range *range) REQUIRES(range_lock)
{
	range->refused = move_check_there(&heap, range->start, range->end, range->offset);
	if (range->refused)
		return;
	range->settled = true;
	range_update_keys(range);
	drop_aside(range);
}

/* All out: drops the range, and frees its place in the heap. */
static void drop(unsigned index) REQUIRES(range_lock)
{
	struct range range = range_remove(index);

	if (range.left_private)
		range_retire(&range);
	range.drained = true; /* or the range was never in the heap */
	range_update_keys(&range);
	stay(range.key, range.refused);
	drop_aside(&range);
}

/* Marks its keys MOVING, so that peers keep away. */
static void unsettle(struct range *range, uint64_t now) REQUIRES(range_lock)
{
	range->settled = range->drained = false;
	range->since_ns = now;
	range->pause_ns = 0;
	range_update_keys(range);
}

static void put_off(struct range *range, uint64_t now) REQUIRES(range_lock)
{
	range->pause_ns = range->pause_ns ? range->pause_ns * 2 : PUT_OFF_MIN;
	if (range->pause_ns > PUT_OFF_MAX)
		range->pause_ns = PUT_OFF_MAX;
	range->next_ns = now + range->pause_ns;
	range->put_off = true;
}

static int move_slice_out(struct range *range, const struct move_range *slice)
{
	bool shown = false;
	int error = -EAGAIN;

	if (slice->aside && (held || !heap.needs_hold))
		error = move_out(&heap, slice);
	if (error && heap.needs_hold) { /* there is no hold, or a standing thread uses the pages */
		range->left_private = true;
		error = move_out_private(&heap, slice, &shown);
		range->shown |= shown;
	}
	if (!error && !range->shown)
		free_place(slice->offset, slice->end - slice->start);
	return error;
}

static int move_slice_in(const struct move_range *slice)
{
	int error = move_in(&heap, slice);

	if (error)
		free_place(slice->offset, slice->end - slice->start);
	return error;
}

/*
 * Moves the next slice into the heap, or the last one out. *in: bytes of the range in the heap
 * after success.
 */
static int move_slice(struct range *range, bool out, uint64_t *in) EXCLUDES(range_lock)
{
	uint64_t from = out ? range_slice_begin(range) : range->in;
	uint64_t to = out ? range->in : range_slice_end(range);
	struct move_range slice = {
		.start = range->start + from,
		.end = range->start + to,
		.offset = range->offset + from,
		.aside = range->aside ? range->aside + from : NULL,
		.last = to == range->end - range->start,
	};

	*in = out ? from : to;
	if (out && slice.last)
		slice.end = range->start + range_bytes_and_room(range);
	return out ? move_slice_out(range, &slice) : move_slice_in(&slice);
}

/*
 * One address range for all slices, so that pages that return are one mapping. False: it is needed,
 * and there is none.
 */
static bool has_aside(struct range *range, bool out)
{
	void *aside;

	if (range->aside || (heap.needs_hold && (!out || !held)))
		return true;
	aside = sparse_map(range_bytes_and_room(range), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (aside == MAP_FAILED)
		return heap.needs_hold;
	range->aside = aside;
	return true;
}

/* After a scan for hazards: moves next, scans again, or gives up. */
static void on_drain(struct range *range, bool drained, uint64_t now) REQUIRES(range_lock)
{
	range->drained = drained;
	if (drained)
		range_update_keys(range);
	else if (now - range->since_ns < DRAIN_NS)
		range->next_ns = now + SCAN_NS;
	else if (range->in)
		put_off(range, now);
	else
		range->refused = -EAGAIN;
}

static void on_slice(struct range *range, bool out, int error, uint64_t in, uint64_t now)
	REQUIRES(range_lock)
{
	if (!error) {
		range->in = in;
		range->since_ns = out ? range->since_ns : now;
		range->pause_ns = range->next_ns = 0;
		range->put_off = false;
	} else if (out) {
		on_lost_guard(error);
		put_off(range, now);
	} else {
		range->refused = on_lost_guard(error);
		range->since_ns = now;
	}
}

/*
 * A slice that needs a hold, but there is none. False: it moves all the same, without a hold, or
 * it is time to give up. Pages that no thread waits for have more time to leave.
 */
static bool waits_for_hold(struct range *range, bool out, uint64_t now) REQUIRES(range_lock)
{
	bool awaited = out && (forks || change_is_awaited());

	if (!heap.needs_hold || held || now - range->since_ns > (awaited ? STAND_NS : GIVE_UP_NS))
		return false;
	range->next_ns = now + SCAN_NS;
	return true;
}

/*
 * Makes the next step of a range if it is due. False: it is not; reduces *next to when it will be.
 */
static bool step(unsigned index, uint64_t now, uint64_t *next) REQUIRES(range_lock)
{
	struct range *range = &ranges[index], copy;
	bool out = belongs_out(range), drained;
	uint64_t in = 0;
	int error;

	if (forking || (range->settled && !out))
		return false;
	if (now < range->next_ns) {
		*next = range->next_ns < *next ? range->next_ns : *next;
		return false;
	}
	if (range->settled)
		unsettle(range, now);
	if (out && !range->in) {
		drop(index);
		return true;
	}
	if (!out && range->in == range->end - range->start) {
		settle(range);
		return true;
	}
	if (range->drained && waits_for_hold(range, out, now)) {
		*next = range->next_ns < *next ? range->next_ns : *next;
		return false;
	}
	copy = *range; /* other threads do not change fields that a slice uses */
	in_slice = true;
	lock_release(&range_lock);
	if (!range->drained) {
		drained = range_drain(&copy);
		lock_acquire(&range_lock);
		on_drain(range, drained, now);
	} else {
		if (heap.needs_hold && !held && !out)
			error = -EAGAIN;
		else
			error = has_aside(&copy, out) ? move_slice(&copy, out, &in) : -ENOMEM;
		lock_acquire(&range_lock);
		range->aside = copy.aside;
		range->left_private = copy.left_private;
		range->shown = copy.shown;
		/* pages of its place are seen elsewhere, and may be a child's: it does not turn
		 * round */
		if (range->left_private && !range->refused)
			range->refused = -EAGAIN;
		on_slice(range, out, error, in, now);
	}
	in_slice = false;
	return true;
}

/*
 * ------------------------------------------------------------------------------------------
 * Requests.
 */

static bool is_alive(uint32_t key)
{
	return key_table() && atomic_load(&entry_of(key)->key) == key;
}

/*
 * Barrier REQUEST: the key is loaded after the request was added (both seq_cst), so either this
 * thread finds that the key has ended, or migrate_on_revoke finds the request.
 */
bool migrate_request(uint32_t key)
{
	if (!requests_add(key))
		return false;
	if (!is_alive(key)) {
		requests_drop(key);
		return false;
	}
	call_progress_thread();
	return true;
}

void migrate_want(uint32_t key, uint64_t length, size_t bytes)
{
	if (heap_pays(&own, key, length, bytes) && migrate_request(key))
		heap_asked(&own, key);
}

char *migrate_map(const struct arena_key *entry, uint64_t host, size_t bytes)
{
	size_t mapped = bytes;
	uint64_t place = heap_place(entry, host, &mapped);
	char *at = place ? heap_map(&own, place, &mapped) : NULL;

	return mapped == bytes ? at : NULL;
}

static void grant(uint32_t key, uint64_t now) REQUIRES(range_lock)
{
	struct arena_key *entry = entry_of(key);
	int error;

	if (!is_alive(key) || entry->heap || (atomic_load(&entry->flags) & KEY_STAYS))
		return;
	error = publish_place(entry);
	if (!error && !entry->heap)
		error = make_range(key, now);
	stay(key, error);
}

/* A hold ends soon: what is left waits for the next one. */
static bool is_over(uint64_t now)
{
	return held && clock_now_ns() - now >= HOLD_NS;
}

/* Of the retired places, those that the program maps no more are free again. */
static void reclaim(void) REQUIRES(range_lock)
{
	uint64_t end;

	if (range_any_retired() && !move_find_last(&heap, range_is_at, &end))
		range_reclaim(end);
}

/* At least one: to reclaim takes time where the program has many mappings. */
static void grant_all(uint64_t now) REQUIRES(range_lock)
{
	bool any = false;

	for (unsigned i = 0; i < REQUESTS_MAX && !forks && !(any && is_over(now)); i++) {
		uint32_t key = requests_take(i);

		if (!key)
			continue;
		if (!any)
			reclaim();
		any = true;
		grant(key, now);
	}
}

/* Requests, or ranges on their way, wait for a hold. */
static bool needs_threads(void) REQUIRES(range_lock)
{
	if (requests_any())
		return true;
	for (unsigned i = 0; i < range_count; i++)
		if (!ranges[i].settled &&
		    (!belongs_out(&ranges[i]) || (ranges[i].in && !ranges[i].put_off)))
			return true;
	return false;
}

/* One step of one range. */
static bool step_any(uint64_t now, uint64_t *next) REQUIRES(range_lock)
{
	static unsigned turn; /* ranges take turns */

	for (unsigned i = range_count; i-- > 0;)
		if (step(turn++ % range_count, now, next))
			return true;
	return false;
}

uint64_t migrate_run(uint64_t now)
{
	static uint64_t next_ns = MIGRATE_NEVER;
	bool moved, any = false;
	uint64_t asks_ns = MIGRATE_NEVER;

	if (!atomic_exchange(&due, false) && now < next_ns)
		return next_ns;
	next_ns = MIGRATE_NEVER;
	held = heap.needs_hold && hold_begin();
	lock_acquire(&range_lock);
	if (held || !heap.needs_hold)
		grant_all(now);
	do {
		moved = step_any(now, &next_ns);
		any |= moved;
	} while (moved && held && !is_over(now));
	if (heap.needs_hold)
		asks_ns = hold_ask(!forks && needs_threads(), held ? clock_now_ns() : now);
	lock_release(&range_lock);
	if (held)
		hold_end();
	held = false;
	if (moved)
		next_ns = 0;
	if (any)
		change_tell();
	make_reports();
	if (asks_ns < next_ns)
		next_ns = asks_ns;
	return next_ns;
}

/*
 * ------------------------------------------------------------------------------------------
 * Threads that need pages out of the heap.
 */

/* A range over [start, end) is on its way out, and not put off. */
static bool is_awaited(uint64_t start, uint64_t end) REQUIRES(range_lock)
{
	for (unsigned i = 0; i < range_count; i++)
		if (ranges[i].start < end && ranges[i].end > start && !ranges[i].put_off &&
		    belongs_out(&ranges[i]))
			return true;
	return false;
}

void migrate_wait_out(uint64_t addr, uint64_t length)
{
	uint64_t end = addr + length < addr ? UINT64_MAX : addr + length;
	int saved = errno;
	uint32_t seen;
	bool awaited;

	do {
		seen = change_count();
		lock_acquire(&range_lock);
		awaited = is_awaited(addr, end);
		lock_release(&range_lock);
	} while (awaited && wait_for_change(seen, WAIT_S * 1000));
	errno = saved;
}

/* The request is noted, or its range on the way in. */
static bool is_offered(uint32_t key) EXCLUDES(range_lock)
{
	bool offered = requests_has(key);

	lock_acquire(&range_lock);
	for (unsigned i = 0; i < range_count; i++)
		offered |= ranges[i].key == key && !ranges[i].settled && !belongs_out(&ranges[i]);
	lock_release(&range_lock);
	return offered;
}

void migrate_offer(uint32_t key, uint64_t length)
{
	static _Atomic uint64_t offered;
	static _Atomic unsigned count;
	int saved = errno;
	uint32_t seen;

	if (!heap.needs_hold || heap.permission == MOVE_NEVER || !heap_bytes ||
	    length < HEAP_REGION_MIN || length > OFFER_BYTES ||
	    atomic_load(&offered) + length > OFFERED_BYTES || atomic_load(&count) >= OFFERED_MAX ||
	    !hold_is_alone() || !migrate_request(key))
		return;
	atomic_fetch_add(&offered, length);
	atomic_fetch_add(&count, 1);
	do
		seen = change_count();
	while (is_offered(key) && wait_for_change(seen, OFFER_WAIT_MS));
	errno = saved;
}

/*
 * The stack or the thread-local memory of the forking thread, without which the child cannot run.
 */
static bool is_vital(const struct range *range)
{
	uintptr_t stack = (uintptr_t)__builtin_frame_address(0), block, block_end;
	uintptr_t end = range->start + range->in; /* the last slice leaves first */

	hold_find_thread_local(&block, &block_end);
	return (stack >= range->start && stack < end) || (block_end > range->start && block < end);
}

/* It may take several tries: a thread that is about to sleep counts as busy. */
static bool has_vital(void) REQUIRES(range_lock)
{
	for (unsigned i = 0; i < range_count; i++)
		if (is_vital(&ranges[i]))
			return true;
	return false;
}

void migrate_before_fork(void)
{
	uint64_t until = clock_now_ns() + WAIT_S * UINT64_C(1000000000);
	int saved = errno;
	bool waits = true, ready;
	uint32_t seen;

	lock_acquire(&range_lock);
	forks++;
	for (unsigned i = 0; i < range_count; i++) {
		ranges[i].put_off = false;
		ranges[i].next_ns = 0;
	}
	if (range_count)
		call_progress_thread();
	for (;;) {
		/* another thread's fork and a slice end without help */
		ready = !forking && !in_slice && !(waits && is_awaited(0, UINT64_MAX)) &&
			!(waits && has_vital() && clock_now_ns() < until);
		if (ready)
			break;
		seen = change_count();
		lock_release(&range_lock);
		waits = wait_for_change(seen, WAIT_S * 1000) && waits;
		lock_acquire(&range_lock);
	}
	forking = true;
	range_keep_retired();
	if (range_count)
		move_copy_for_child(&heap, &copies);
	lock_release(&range_lock);
	errno = saved;
}

void migrate_in_parent(void)
{
	int saved = errno;
	bool any;

	lock_acquire(&range_lock);
	any = range_count != 0; /* as before the fork: none is made or dropped meanwhile */
	if (any)
		move_drop_copies(&heap, &copies);
	forking = false;
	forks--;
	lock_release(&range_lock);
	change_tell();
	if (any || requests_any()) /* requests that came meanwhile */
		call_progress_thread();
	errno = saved;
}

void migrate_in_child(void)
{
	hold_reset_after_fork();
	lock_acquire_in_child(&range_lock);
	move_restore_in_child(&copies);
	for (unsigned i = 0; i < range_count; i++)
		drop_aside(&ranges[i]);
	range_count = forks = 0;
	forking = in_slice = false;
	heap_bytes = 0;
	heap_forget(&own);
	close_maps();
	requests_clear();
	atomic_store(&due, false);
	change_reset_after_fork();
	lock_release(&range_lock);
}
