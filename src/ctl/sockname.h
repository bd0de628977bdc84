/*
 * Socket names - the abstract unix names under which processes and daemon meet.
 *
 * In:  who is served: one user, or all; the environment variable VERBATIM_NAMESPACE, which keeps
 *      tests apart from everything else.
 * Out: the address of the daemon's socket, and of each slot's token.
 *
 * Abstract names belong to a network namespace and vanish with the last descriptor. Anybody may
 * bind one first: who connects checks SO_PEERCRED. Any thread; never blocks.
 */
#ifndef CTL_SOCKNAME_H
#define CTL_SOCKNAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define SOCKNAME_NAMESPACE_MAX 60 /* characters of VERBATIM_NAMESPACE, so that every name fits */

/* What the names of one daemon begin with, e.g. "verbatim.1000" or "verbatim.system". */
struct sockname_space {
	char text[96];
};

struct sockname {
	struct sockaddr_un addr;
	socklen_t len;
};

/* The space of the system's daemon, or of a user's. 0; -ENAMETOOLONG: VERBATIM_NAMESPACE. */
int sockname_space_of_system(struct sockname_space *space);
int sockname_space_of_user(uid_t uid, struct sockname_space *space);

void sockname_of_daemon(const struct sockname_space *space, struct sockname *out);

/* slot: 1..CTL_SLOT_MAX. */
void sockname_of_slot(const struct sockname_space *space, unsigned slot, struct sockname *out);

/* Of a session of connection management. */
void sockname_of_session(const struct sockname_space *space, uint32_t session, struct sockname *out);

/* All sessions whose name is bound by anybody. */
void sockname_each_session(const struct sockname_space *space,
			   void (*each)(uint32_t session, void *arg), void *arg);

bool sockname_equal(const struct sockname *a, const struct sockname *b);

#endif
