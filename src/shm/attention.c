/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/attention.h"

/* More than that takes time to execute, so that a wait for it says nothing. */
#define LITTLE_BYTES 1024

static bool seems_to_poll(const struct link *link)
{
	return !atomic_load_explicit(&link->peer->need_wakeup, memory_order_relaxed);
}

static bool is_known_to_poll(const struct link *link)
{
	return atomic_load_explicit(&link->attention.polls, memory_order_relaxed);
}

/* Until the last look. */
static bool is_known_to_look(const struct link *link) REQUIRES(link->rx_lock)
{
	const struct attention *attention = &link->attention;

	return is_known_to_poll(link) && (attention->looks < ATTENTION_LOOKS || attention->woken);
}

/* Bytes of records that the other process has not executed; a guess without rx_lock. */
static uint64_t outstanding(const struct link *link)
{
	return __atomic_load_n(&link->tx.tail, __ATOMIC_RELAXED) -
	       __atomic_load_n(&link->acked, __ATOMIC_RELAXED);
}

bool attention_expected(struct link *link)
{
	struct attention *attention = &link->attention;
	uint32_t left;

	if (!seems_to_poll(link))
		return false;
	if (is_known_to_poll(link))
		return true;
	left = atomic_load_explicit(&attention->left, memory_order_relaxed);
	if (left)
		atomic_store_explicit(&attention->left, left - 1, memory_order_relaxed);
	return !left;
}

static void learn_that_it_polls(struct attention *attention)
{
	if (!atomic_load_explicit(&attention->polls, memory_order_relaxed))
		atomic_store_explicit(&attention->polls, true, memory_order_relaxed);
	else
		atomic_store_explicit(&attention->pause, 0, memory_order_relaxed);
}

static uint32_t longer(uint32_t pause)
{
	if (!pause)
		return ATTENTION_PAUSE;
	return pause < ATTENTION_PAUSE_MAX / 2 ? 2 * pause : ATTENTION_PAUSE_MAX;
}

static void learn_that_it_does_not(struct attention *attention)
{
	uint32_t pause = longer(atomic_load_explicit(&attention->pause, memory_order_relaxed));

	atomic_store_explicit(&attention->pause, pause, memory_order_relaxed);
	atomic_store_explicit(&attention->left, pause, memory_order_relaxed);
	atomic_store_explicit(&attention->polls, false, memory_order_relaxed);
}

static uint32_t looks_before_wake_up(const struct attention *attention)
{
	return attention->hasty ? ATTENTION_LOOKS : ATTENTION_PATIENCE;
}

static void wake_up(struct link *link) REQUIRES(link->rx_lock)
{
	struct attention *attention = &link->attention;

	attention->woken = true;
	if (attention->hasty)
		attention->hasty--;
	else
		attention->hasty = attention->failed = longer(attention->failed);
	link_wake(link);
}

static void on_executed(struct attention *attention)
{
	if (attention->looks < ATTENTION_LOOKS)
		learn_that_it_polls(attention);
	if (!attention->woken)
		attention->hasty = attention->failed = 0;
}

void attention_on_look(struct link *link, bool any)
{
	struct attention *attention = &link->attention;
	uint64_t bytes = outstanding(link);

	if (link->acked != attention->acked || !bytes) {
		if (attention->waits)
			on_executed(attention);
		attention->acked = link->acked;
		attention->looks = 0;
		attention->woken = false;
		attention->waits = bytes != 0;
		return;
	}
	if (any)
		return; /* what it sends does not say that it looks */
	attention->waits = true;
	if (attention->woken)
		return;
	if (++attention->looks < ATTENTION_LOOKS)
		return;
	if (!seems_to_poll(link)) {
		attention->woken = true; /* by link_notify, or barrier WAKEUP has seen to it */
		return;
	}
	if (attention->looks == ATTENTION_LOOKS && bytes <= LITTLE_BYTES)
		learn_that_it_does_not(attention);
	if (attention->looks >= looks_before_wake_up(attention))
		wake_up(link);
}

bool attention_is_due(const struct link *link)
{
	return outstanding(link) != 0;
}

void attention_before_sleep(struct link *link)
{
	/* whoever has the lock looks, and the lock keeps the other process's arena mapped */
	if (!outstanding(link) || !lock_try(&link->rx_lock))
		return;
	if (link->alive && seems_to_poll(link) && !is_known_to_look(link))
		link_wake(link);
	lock_release(&link->rx_lock);
}
