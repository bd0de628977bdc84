/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Eventfd - an eventfd in semaphore mode that counts the entries of a list. Programs poll it, set
 * O_NONBLOCK as they like, and read it through our calls.
 */
#ifndef BASE_EVENTFD_H
#define BASE_EVENTFD_H

#include <stdint.h>

/* A new one, close-on-exec, at 0; or -errno. */
int eventfd_create(void);

/* Adds one. Never blocks in practice (the count has 64 bits). Preserves errno. */
void eventfd_add(int fd);

/*
 * Takes one, as read() does: 0, or -1 with errno (EAGAIN, EINTR). Blocks unless O_NONBLOCK is set.
 */
int eventfd_take(int fd);

/*
 * In the child of a fork: the descriptor is the parent's file. Gives it a counter of the child's
 * own, at 0; without one *fd is -1. Only system calls. Does nothing to a descriptor that
 * the program has put another file at.
 */
void eventfd_renew(int *fd);

/* Takes up to `count` without blocking, whatever O_NONBLOCK says; returns how many it took. */
uint32_t eventfd_withdraw(int fd, uint32_t count);

#endif
