/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptor store - any number of descriptors in the queue of one socket, which a process can hold
 * without looking inside.
 *
 * It is a unix datagram socket that is connected to itself, with the descriptors as messages in its
 * own queue. A process that holds the store keeps all of them open. The daemon looks inside
 * (MSG_PEEK) and adds at the end; it never takes anything out.
 *
 * Descriptors in a store count as in flight (unix(7)) for the daemon's user, each once however many
 * processes hold the store. If there are more than the daemon's RLIMIT_NOFILE (which it raises as
 * far as it may), adding fails with -ETOOMANYREFS, unless the daemon has CAP_SYS_RESOURCE. A store
 * takes some 500 messages under Linux's usual net.core.wmem_max; then adding fails with -ENOBUFS.
 *
 * Owner: the daemon's one thread. Never blocks.
 */
#ifndef EVENT_FD_STORE_H
#define EVENT_FD_STORE_H

#define FD_STORE_ADD_MAX 8 /* descriptors at once */

/* Returns the store's own descriptor, or -errno. */
int fd_store_create(void);

/* Adds all or none; the caller keeps its copies. 0 or -errno. */
int fd_store_add(int fd_store, const int *fds, unsigned count);

/*
 * Copies of all descriptors in the order in which they were added, close-on-exec, the caller's.
 * Returns how many, or -errno: -EPROTO it is no descriptor store; -EMFILE; -E2BIG there are more
 * than max.
 */
int fd_store_look(int fd_store, int *fds, unsigned max);

#endif
