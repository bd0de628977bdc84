/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hot links - the links that each poll looks at. The others are cold: their peers ring the doorbell
 * (shm/doorbell.h), of which each poll reads one word. So the cost of a poll does not grow with the
 * number of peers. The progress thread looks at all.
 *
 * In:  links that were made, closed, or found busy; the doorbell; the renewals of the poll lease.
 * Out: work done on links.
 *
 * | state | event                                                        | next |
 * | ----- | ------------------------------------------------------------ | ---- |
 * |       | hot_links_add                                                | hot  |
 * | hot   | no work from one renewal of the lease to the third after it, | cold |
 * |       | while more than HOT_FEW links are hot                        |      |
 * | cold  | the doorbell rang, or a look found work                      | hot  |
 *
 * Any thread. hot_lock is innermost.
 */
#ifndef ADAPTER_HOT_LINKS_H
#define ADAPTER_HOT_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/link.h"

/* A link is polled from here on, and no more. Its struct stays, as a look may be under way. */
void hot_links_add(struct link *link);
void hot_links_remove(struct link *link);

/* How many there are, hot or cold. */
uint32_t hot_links_count(void);
/* The one at this place, with a reference, so that its arena stays mapped; or NULL. */
struct link *hot_links_get(uint32_t place);

/*
 * A thread that polls: looks at the hot links, and at those that rang. True: there was work, or
 * another thread is at a link.
 */
bool hot_links_progress(void);

/* A thread that will sleep for an event: wakes processes that may not look at what was sent. */
void hot_links_before_sleep(void);

/*
 * Looks at all links once, cold ones too. 1: a link had work, so another look may find more.
 * -EBUSY: none had, but other threads are at some.
 */
int hot_links_progress_all(void);

/* The same until a look finds nothing, so many times at most. What the last look found. */
#define HOT_LINKS_ROUNDS_MAX 128 /* as many as read a full ring */
int hot_links_progress_rounds(void);

/*
 * The same before nobody looks for a while: gets at links that other threads hold, too, waiting for
 * those some milliseconds. Such a thread may be through with its look, and not look again.
 */
void hot_links_progress_last(void);

/* The calling thread has renewed the poll lease: links without work become cold. */
void hot_links_on_renewal(void);

void hot_links_reset_after_fork(void);

#endif
