/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attention - whether a thread of the other process polls, which its need_wakeup does not say for
 * sure: a program that spins on memory, and polls now and then for its own completions, holds the
 * poll lease in between, and executes no message for up to a millisecond.
 *
 * In:  how soon the other process executes records, as this end's polls see it.
 * Out: whether a small WRITE or READ is quicker as a message than by a copy through the kernel;
 *      a wake-up of the other process, whatever need_wakeup says, when looks were in vain.
 *
 * | `polls` | event                                            | next              |
 * | ------- | ------------------------------------------------ | ----------------- |
 * | either  | records are executed before ATTENTION_LOOKS      | true              |
 * | either  | ATTENTION_LOOKS looks in vain, little is waiting | false, for `left` |
 * | false   | `left` requests have gone through the kernel     | the next one is a |
 * |         |                                                  | message: decides  |
 *
 * `left` doubles with each disappointment.
 *
 * A wake-up is for a process that does not look. One that is only slow suffers from it: its
 * progress thread takes a processor from the thread that polls, which makes that slower, so that
 * its peer wakes it again. So a wake-up comes after ATTENTION_PATIENCE looks, and sooner only where
 * that was in vain:
 *
 * | `hasty` | looks | executed by then | if not: a wake-up, and then                        |
 * | ------- | ----- | ---------------- | -------------------------------------------------- |
 * | 0       | many  | stays 0          | ATTENTION_PAUSE; after each further failure double |
 * | not 0   | few   | 0                | one less                                           |
 *
 * The words are guesses: threads may lose one another's updates. See docs/design/progress.md.
 */
#ifndef SHM_ATTENTION_H
#define SHM_ATTENTION_H

#include <stdbool.h>

#include "shm/doorbell.h"
#include "shm/link.h"

/* Some microseconds of a thread that polls. */
#define ATTENTION_LOOKS	    128u
#define ATTENTION_PATIENCE  4096u /* some 100 us */
#define ATTENTION_PAUSE	    64u	  /* requests, or wake-ups */
#define ATTENTION_PAUSE_MAX 4096u

/* A requester chooses for a request: true: a thread of the other process polls, as far as known. */
bool attention_expected(struct link *link);

/* A look at the link. `any`: it found something. Wakes the other process after many in vain. */
void attention_on_look(struct link *link, bool any) REQUIRES(link->rx_lock);

/*
 * The calling thread has published records: link_notify. If this process's pollers do not look at
 * the link, they do from the next poll on, or the next attention_before_sleep (barrier BELL).
 */
static inline void attention_announce(struct link *link)
{
	link_notify(link);
	if (doorbell_own && doorbell_is_cold(link->slot))
		doorbell_ring(doorbell_own, link->slot);
}

/* The other process has not executed all records, as far as known. */
bool attention_is_due(const struct link *link);

/*
 * The calling thread is about to sleep, and will not look: wakes the other process if records wait
 * there that nobody may be looking at.
 */
void attention_before_sleep(struct link *link);

#endif
