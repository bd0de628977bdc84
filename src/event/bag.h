/*
 * Bag - any number of descriptors behind one, which processes hold without looking inside.
 *
 * A unix datagram socket that is connected to itself, with the descriptors as messages in its own
 * queue. Whoever holds the bag keeps all of them open. What is in it stays in it: the daemon looks
 * (MSG_PEEK) and adds at the end.
 *
 * Descriptors under way count for the user of the daemon, each once however many hold the bag:
 * when there are more than the daemon's RLIMIT_NOFILE (which it raises as far as it may), adding
 * fails with -ETOOMANYREFS, unless the daemon has CAP_SYS_RESOURCE. A bag takes some 500 messages
 * under Linux's usual net.core.wmem_max; then adding fails with -ENOBUFS.
 *
 * Owner: the daemon's one thread. Never blocks.
 */
#ifndef EVENT_BAG_H
#define EVENT_BAG_H

#define BAG_ADD_MAX 8 /* descriptors at once */

/* The new bag's descriptor, or -errno. */
int bag_create(void);

/* All or none. They stay the caller's, too. 0 or -errno. */
int bag_add(int bag, const int *fds, unsigned count);

/*
 * Copies of all descriptors in the order in which they were added, close-on-exec, the caller's.
 * Returns how many, or -errno: -EPROTO it is no bag; -EMFILE; -E2BIG there are more than max.
 */
int bag_look(int bag, int *fds, unsigned max);

#endif
