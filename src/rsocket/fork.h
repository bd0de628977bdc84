/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fork - makes the parent's rsockets unusable in the child of a fork.
 *
 * The connections belong to the parent's adapter. In the child, calls on their numbers return
 * EBADF, and rclose closes the descriptor only; the parent's connection does not notice. The child
 * can create rsockets of its own.
 */
#ifndef RSOCKET_FORK_H
#define RSOCKET_FORK_H

/* Installs the handlers (pthread_atfork), once. */
void fork_watch(void);

/* Closes the descriptor of an rsocket of the parent. -EBADF: it is none. */
int fork_close(int fd);

#endif
