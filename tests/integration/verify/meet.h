/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Meet - the TCP connection over which the two ends exchange their addresses and keys.
 *
 * In:  where the other end is, or where to listen.
 * Out: blocks of equal length, exchanged. Blocks; an end that is gone, or 60 s without data, ends
 *      the process, but for meet_end.
 */
#ifndef VERIFY_MEET_H
#define VERIFY_MEET_H

#include <stddef.h>

#include "verify.h"

int meet(const struct options *options);

/* Sends len bytes of ours and receives as many of theirs. */
void meet_exchange(int fd, const void *ours, void *theirs, size_t len);

/* Returns when the other end has come here, too. */
void meet_barrier(int fd);

/* Returns when the other end has come here, too, or is gone. */
void meet_end(int fd);

#endif
