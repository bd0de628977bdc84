/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Liveness - whether the owner of an arena is alive, known at once and without a system call.
 *
 * verbatimd announces deaths, too, but a process may read its notice late. By then verbatimd may
 * have given the dead process's slot to a new process, and a connection to the new one must not use
 * the memory of the dead one.
 *
 * So the arena has a liveness word: a robust futex (get_robust_list(2)) of the progress thread,
 * which ends only with its process. The kernel marks the word when that thread ends. It does so
 * before it closes the process's sockets, hence before verbatimd can give the slot away. So a
 * process that learns of a slot's new owner sees that the old one is dead.
 *
 * Where the kernel has no robust futexes the word stays 0 and only verbatimd's notice counts.
 */
#ifndef ADAPTER_LIVENESS_H
#define ADAPTER_LIVENESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"

/*
 * From now on the calling thread's end marks its process as dead. The thread must live as long as
 * the process, and use no other robust futexes (nor glibc's robust mutexes).
 */
void liveness_begin(struct arena_header *own);

/* What the word says of the arena's owner. Both are false while it is 0. */
bool liveness_is_dead(const struct arena_header *header);
bool liveness_is_alive(const struct arena_header *header);

/*
 * All threads of the process have ended. Its word is marked earlier: another thread may still be in
 * the kernel, waiting for a processor. False also where the kernel cannot tell.
 */
bool liveness_no_thread_left(pid_t pid);

#endif
