/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hot links - the links that each poll looks at. The others are cold: their peers ring the doorbell
 * (shm/doorbell.h), of which each poll reads one word. So the cost of a poll does not grow with the
 * number of peers.
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

#include "shm/link.h"

/* A link is polled from here on, and no more. */
void hot_links_add(struct link *link);
void hot_links_remove(struct link *link);

/*
 * A thread that polls: looks at the hot links, and at those that rang. True: there was work, or
 * another thread is at a link.
 */
bool hot_links_progress(void);

/* A thread that will sleep for an event: wakes processes that may not look at what was sent. */
void hot_links_before_sleep(void);

/* Looks at a link, of any state: as progress_link. */
int hot_links_look(struct link *link);

/* The calling thread has renewed the poll lease: links without work become cold. */
void hot_links_on_renewal(void);

void hot_links_reset_after_fork(void);

#endif
