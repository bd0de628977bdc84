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

/* True if anything was done (or another thread is doing it), so that a look later is worth while. */
bool progress_link(struct link *link);

/*
 * What the other end had done is done here, too, when this returns. Waits for other threads that are at the
 * link, which take a bounded amount each.
 */
void progress_catch_up(struct link *link);

/*
 * The process at the other end is dead: takes what it left, then fails all QPs that depend on it.
 * Waits for other threads that are at the link. The caller closes the link afterwards.
 */
void progress_on_death(struct link *link);

/* Bytes of payload that this thread has copied; whoever takes it as a measure of time sets it back. */
extern _Thread_local uint64_t shm_moved __attribute__((tls_model("initial-exec")));

#endif
