/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/hot_links.h"

#include <errno.h>
#include <time.h>

#include "base/uncancelled.h"
#include "memory/hazard.h"
#include "shm/attention.h"
#include "shm/doorbell.h"
#include "shm/progress.h"

#define HOT_FEW	       1 /* its look costs as much as that at the doorbell */
#define UNUSED_MAX     3 /* renewals of the poll lease */
#define COOLED_AT_ONCE 64

static struct lock hot_lock = LOCK_INITIALIZER;
/* Changed under hot_lock. The structs outlive their links, so pollers read it without. */
static struct link *_Atomic hot[2 * SLOT_COUNT];
static _Atomic uint32_t hot_count;
static struct link *cold[SLOT_COUNT] GUARDED_BY(hot_lock);
/* Hot or cold; likewise. */
static struct link *_Atomic all[2 * SLOT_COUNT];
static _Atomic uint32_t all_count;

static void append(struct link *link) REQUIRES(hot_lock)
{
	uint32_t count = hot_count;

	link->unused_count = 0;
	hot[count] = link;
	hot_count = count + 1;
}

static void remove_at(uint32_t place) REQUIRES(hot_lock)
{
	uint32_t count = hot_count;

	hot[place] = hot[count - 1];
	hot_count = count - 1;
}

static struct link *take_cold(uint32_t slot) REQUIRES(hot_lock)
{
	struct link *link = cold[slot];

	if (link)
		doorbell_set_cold(slot, false);
	cold[slot] = NULL;
	return link;
}

void hot_links_add(struct link *link)
{
	uint32_t count;

	lock_acquire(&hot_lock);
	count = all_count;
	all[count] = link;
	all_count = count + 1;
	append(link);
	lock_release(&hot_lock);
}

void hot_links_remove(struct link *link)
{
	lock_acquire(&hot_lock);
	if (cold[link->slot] == link)
		take_cold(link->slot);
	for (uint32_t i = 0; i < hot_count; i++)
		if (hot[i] == link) {
			remove_at(i);
			break;
		}
	for (uint32_t i = 0, count = all_count; i < count; i++)
		if (all[i] == link) {
			all[i] = all[count - 1];
			all_count = count - 1;
			break;
		}
	lock_release(&hot_lock);
}

uint32_t hot_links_count(void)
{
	return all_count;
}

struct link *hot_links_get(uint32_t place)
{
	struct link *link = NULL;

	lock_acquire(&hot_lock);
	if (place < all_count) {
		link = all[place];
		link_get(link);
	}
	lock_release(&hot_lock);
	return link;
}

static void warm(uint32_t slot)
{
	struct link *link;

	lock_acquire(&hot_lock);
	link = take_cold(slot);
	if (link)
		append(link);
	lock_release(&hot_lock);
}

/* As progress_link. A thread that is at the link may leave work there. */
static int look(struct link *link)
{
	int any = progress_link(link);

	if (any && !atomic_load_explicit(&link->used, memory_order_relaxed))
		atomic_store_explicit(&link->used, true, memory_order_relaxed);
	return any;
}

static int look_and_warm(struct link *link)
{
	int any = look(link);

	if (any && doorbell_own && doorbell_is_cold(link->slot))
		warm(link->slot);
	return any;
}

int hot_links_progress_all(void)
{
	uint32_t count = atomic_load_explicit(&all_count, memory_order_acquire);
	int found = 0;

	for (uint32_t i = 0; i < count; i++) {
		int any = look_and_warm(atomic_load_explicit(&all[i], memory_order_acquire));

		if (any > 0 || !found)
			found = any;
	}
	return found;
}

int hot_links_progress_rounds(void)
{
	int any, round = 0;

	do
		any = hot_links_progress_all();
	while (any && ++round < HOT_LINKS_ROUNDS_MAX);
	return any;
}

/* A thread that holds a link may wait for this processor, so to yield would not do. */
#define HELD_PAUSE_NS	50000
#define HELD_PAUSES_MAX 100
/* What is sent from now on wakes this thread; but work at one link hides that another is held. */
#define STREAMS_MAX 4

void hot_links_progress_last(void)
{
	const struct timespec pause = { .tv_nsec = HELD_PAUSE_NS };

	UNCANCELLED;

	for (int i = 0, streams = 0; i < HELD_PAUSES_MAX && streams < STREAMS_MAX; i++) {
		int found = hot_links_progress_rounds();

		if (!found)
			break;
		streams += found > 0;
		if (found == -EBUSY)
			nanosleep(&pause, NULL);
	}
}

bool hot_links_progress(void)
{
	uint32_t count;
	bool any = false;

	if (doorbell_is_rung())
		doorbell_take(warm);
	count = atomic_load_explicit(&hot_count, memory_order_acquire);
	for (uint32_t i = 0; i < count; i++)
		any |= look(atomic_load_explicit(&hot[i], memory_order_acquire)) != 0;
	return any;
}

void hot_links_before_sleep(void)
{
	uint32_t count;

	if (doorbell_is_rung())
		doorbell_take(warm);
	count = atomic_load_explicit(&hot_count, memory_order_acquire);
	for (uint32_t i = 0; i < count; i++)
		attention_before_sleep(atomic_load_explicit(&hot[i], memory_order_acquire));
}

/* For its own turn, or for the other process: what a thread sent at it may need attention. */
static bool waits(const struct link *link)
{
	return attention_is_due(link) ||
	       atomic_load_explicit(&link->waiting, memory_order_relaxed) ||
	       atomic_load_explicit(&link->again, memory_order_relaxed);
}

/* Had no work for long; no other link has its place. */
static bool may_cool(struct link *link) REQUIRES(hot_lock)
{
	if (atomic_exchange_explicit(&link->used, false, memory_order_relaxed) || waits(link)) {
		link->unused_count = 0;
		return false;
	}
	if (link->unused_count < UNUSED_MAX)
		link->unused_count++;
	return link->unused_count == UNUSED_MAX && link->xcopy != XCOPY_SELF && !cold[link->slot];
}

static uint32_t cool(struct link *cooled[COOLED_AT_ONCE]) REQUIRES(hot_lock)
{
	uint32_t n = 0;

	for (uint32_t i = hot_count; i-- > 0 && hot_count > HOT_FEW && n < COOLED_AT_ONCE;) {
		struct link *link = hot[i];

		if (!may_cool(link))
			continue;
		doorbell_set_cold(link->slot, true);
		cold[link->slot] = link;
		remove_at(i);
		cooled[n++] = link;
	}
	return n;
}

void hot_links_on_renewal(void)
{
	struct link *cooled[COOLED_AT_ONCE];
	uint32_t n;

	if (atomic_load_explicit(&hot_count, memory_order_relaxed) <= HOT_FEW || !doorbell_own ||
	    !hazard_barrier_works())
		return;
	lock_acquire(&hot_lock);
	n = cool(cooled);
	lock_release(&hot_lock);
	if (!n)
		return;
	hazard_barrier(); /* BELL */
	for (uint32_t i = 0; i < n; i++)
		if (look(cooled[i]) || waits(cooled[i]))
			warm(cooled[i]->slot);
}

void hot_links_reset_after_fork(void)
{
	lock_acquire_in_child(&hot_lock);
	hot_count = all_count = 0;
	for (uint32_t slot = 0; slot < SLOT_COUNT; slot++)
		cold[slot] = NULL;
	lock_release(&hot_lock);
}
