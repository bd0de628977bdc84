/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Liveness - whether the process that has an arena is alive: known at once, without a system call.
 *
 * verbatimd tells of deaths too, but its notice may be read late. By then verbatimd may have given
 * the dead process's slot to a new one, and a connection to that must not use the dead one's
 * memory.
 *
 * So the arena has a liveness word: a robust futex (get_robust_list(2)) of the progress thread,
 * which ends with its process only. The kernel marks the word when the thread ends. That is before
 * it closes the process's sockets, so before verbatimd can give the slot away: a process that hears
 * of the new owner of a slot sees the old one dead.
 *
 * Where the kernel has no robust futexes the word stays 0 and only verbatimd's notice counts.
 */
#ifndef ADAPTER_LIVENESS_H
#define ADAPTER_LIVENESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"

/*
 * The calling thread stands for its process from now on. It must end with the process only, and use
 * no other robust futexes (glibc's robust mutexes neither).
 */
void liveness_begin(struct arena_header *own);

/* What the word says of the arena's owner; both are false while it says nothing. */
bool liveness_is_dead(const struct arena_header *header);
bool liveness_is_alive(const struct arena_header *header);

/*
 * No thread of the process is left. Its word is marked when the first threads end; another may be
 * in the kernel for longer, without a processor. False also where the kernel cannot tell.
 */
bool liveness_no_thread_left(pid_t pid);

#endif
