/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress - works through what arrived on a link.
 *
 * In:  the link's rings.
 * Out: requests carried out, answers taken, blocked QPs issued again.
 *
 * Any thread may call it, without locks held; if another is at it already, it returns at once. It
 * does a bounded amount.
 */
#ifndef SHM_PROGRESS_H
#define SHM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/link.h"

/* True: it did something, or another thread is at the link; so it pays to call it again soon. */
bool progress_link(struct link *link);

/*
 * Works through everything that the other end had published before the call. Waits for other
 * threads that are at the link; each does a bounded amount.
 */
void progress_catch_up(struct link *link);

/*
 * The process at the other end is dead: takes what it left, then fails all QPs that depend on it.
 * Waits for other threads that are at the link. The caller closes the link afterwards.
 */
void progress_on_death(struct link *link);

#endif
