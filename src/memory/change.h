/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Change - threads that wait for the progress thread to move pages (memory/migrate.h).
 *
 * A thread notes change_count, looks at what it waits for, and calls change_wait; the progress
 * thread calls change_tell after what it has done. So what changes after the look ends the wait.
 */
#ifndef MEMORY_CHANGE_H
#define MEMORY_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

uint32_t change_count(void);
/*
 * Blocks until the count is not `seen` any more. False: it still is, after so long. Signal handlers
 * run meanwhile, and do not end it. Changes errno.
 */
bool change_wait(uint32_t seen, unsigned ms);
/* Counts up, and wakes the threads that wait. */
void change_tell(void);
/* A thread waits. */
bool change_is_awaited(void);
void change_reset_after_fork(void);

#endif
