/*
 * Life - how a process sees that another is dead, at once and without a system call.
 *
 * verbatimd tells of deaths, but its notice may be read late, and by then the dead one's slot can be
 * another's: a new connection must not be made with the old one's memory. So the arena has a word that
 * the kernel changes when the progress thread ends, which it does with its process only: a robust futex
 * (get_robust_list(2)). That comes before the process's sockets are closed, so before verbatimd can
 * give the slot to somebody else; who heard of the new process sees it.
 *
 * Where the kernel has no robust futexes the word never changes, and only the notice counts.
 */
#ifndef ADAPTER_LIFE_H
#define ADAPTER_LIFE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"

/* The calling thread will end with its process. It has no other robust futexes, glibc's neither. */
void life_begin(struct arena_header *own);

/* Of whoever has this arena. Both are false if it is not known. */
bool life_has_ended(const struct arena_header *header);
bool life_lasts(const struct arena_header *header);

/*
 * No thread of the process is left. Its life word changes when the first ones go, and another may
 * then still be in the kernel, for as long as it gets no processor. False also where the kernel
 * cannot tell.
 */
bool life_left_no_thread(pid_t pid);

#endif
