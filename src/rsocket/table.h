/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table - the rsockets of the process by descriptor number.
 *
 * The number of an rsocket is that of a descriptor that it owns: the channel of its CM id, or its
 * UDP socket. So it differs from all other descriptors of the program. The table holds a reference,
 * and so does each call on the rsocket; the last one destroys it.
 *
 * The lock of the table is innermost; a thread holds it for some instructions.
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
	int fd;	  /* its number; -1 before table_insert */
	_Atomic int refs;
	_Atomic int file_flags; /* those of F_GETFL; only O_NONBLOCK has an effect */
	_Atomic bool closed;	/* by rclose: calls that wait return EBADF */
	void (*destroy)(struct rsocket *rs);
};

/* With one reference, the caller's. `destroy` frees the object. */
void rsocket_init(struct rsocket *rs, int type, void (*destroy)(struct rsocket *rs));

/*
 * Hands the caller's reference to the table. 0 or -ENOMEM, which leaves the reference to the
 * caller.
 */
int table_insert(struct rsocket *rs, int fd);

/* The rsocket of this number, with a new reference; NULL: there is none. */
struct rsocket *table_get(int fd);

/* Removes it from the table, and hands the table's reference to the caller; NULL: there is none. */
struct rsocket *table_remove(int fd);

/* Drops a reference; the last one destroys the rsocket. */
void rsocket_put(struct rsocket *rs);

/* rsocket_put as a handler for pthread_cleanup_push. */
void rsocket_put_cancelled(void *rs);

/*
 * Around a fork. The child has none of the rsockets, but remembers their numbers;
 * table_take_inherited returns true once for each.
 */
void table_before_fork(void);
void table_still_parent(void);
void table_after_fork(void);
bool table_take_inherited(int fd);

#endif
