/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fork - the child of a fork has none of its parent's rsockets.
 *
 * Their connections belong to the parent's adapter. In the child their numbers answer EBADF, and
 * rclose closes the descriptor and nothing more; the parent's connection does not notice. New
 * rsockets of the child work like any.
 */
#ifndef RSOCKET_FORK_H
#define RSOCKET_FORK_H

/* From the first call on forks are noticed. */
void fork_watch(void);

/* Closes the number if it was an rsocket of the parent; -EBADF otherwise. */
int fork_close(int fd);

#endif
