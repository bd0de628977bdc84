/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table - the rsockets of the process by descriptor number.
 *
 * The number of an rsocket is that of a real descriptor that it owns (the channel of its CM id, or
 * its UDP socket), so it never meets another number of the program. An rsocket lives until it has
 * left the table and the last call on it has returned: each call holds a reference.
 *
 * The lock of the table is held for some instructions only; no other is taken under it.
 */
#ifndef RSOCKET_TABLE_H
#define RSOCKET_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/lock.h"

/* What streams and datagrams have in common; the first member of both. */
struct rsocket {
	int type; /* SOCK_STREAM or SOCK_DGRAM */
	int fd;	  /* its number; -1 as long as it is not in the table */
	_Atomic int refs;
	_Atomic int file_flags; /* as of F_GETFL; O_NONBLOCK counts */
	_Atomic bool closed;	/* rclose was called: calls that wait return EBADF */
	void (*destroy)(struct rsocket *rs);
};

void rsocket_init(struct rsocket *rs, int type, void (*destroy)(struct rsocket *rs));

/* The table holds a reference from here on. -errno: ENOMEM. */
int table_insert(struct rsocket *rs, int fd);

/* With a reference for the caller; NULL: no rsocket has this number. */
struct rsocket *table_get(int fd);

/* Takes it out, for the first of several callers; the table's reference is the caller's then. */
struct rsocket *table_remove(int fd);

/* The last one destroys it. */
void rsocket_put(struct rsocket *rs);

/*
 * Around a fork. The child has none of the rsockets, but remembers their numbers;
 * table_take_inherited returns true once for each.
 */
void table_before_fork(void);
void table_still_parent(void);
void table_after_fork(void);
bool table_take_inherited(int fd);

#endif
