/*
 * Socket names - the unix names under which processes and daemon meet.
 *
 * In:  who is served: one user, or all; the network namespace; the environment variable VERBATIM_NAMESPACE,
 *      which keeps tests apart from everything else.
 * Out: the addresses of the daemon's sockets, and of the tokens of slots and sessions.
 *
 * Sockets lie in a directory that nobody else can write to: /run/verbatim for the system's daemon; for a user
 * /run/user/UID/verbatim, else that of XDG_RUNTIME_DIR, else /tmp/verbatim-UID; in it one for each network
 * namespace (its inode) and VERBATIM_NAMESPACE. The daemon makes it. It has an abstract name beside that, under
 * which those find it who have the network namespace in common with it but no directory; and where there can be
 * no directory, tokens have abstract names as well. Anybody may bind an abstract name first: who connects checks
 * SO_PEERCRED.
 *
 * Any thread; never blocks.
 */
#ifndef CTL_SOCKNAME_H
#define CTL_SOCKNAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define SOCKNAME_NAMESPACE_MAX 60 /* characters of VERBATIM_NAMESPACE, so that every name fits */

struct sockname_space {
	char text[96];	  /* what abstract names begin with, e.g. "verbatim.1000" or "verbatim.system" */
	char dir[92];	  /* where sockets lie; "": nowhere */
	size_t base_bytes; /* of dir: what is there without the daemon */
	uid_t owner;	  /* whose the directory is, and so the daemon; root's may always be trusted */
	bool is_system;
};

struct sockname {
	struct sockaddr_un addr;
	socklen_t len;
};

/* The space of the system's daemon, or of a user's. 0; -ENAMETOOLONG: VERBATIM_NAMESPACE. */
int sockname_space_of_system(struct sockname_space *space);
int sockname_space_of_user(uid_t uid, struct sockname_space *space);

/*
 * The daemon's: makes the directory, and has its lock as long as *lock_fd is open. 0; -EADDRINUSE: another daemon has
 * it. If there can be none, dir is empty from then on, and *lock_fd is -1.
 */
int sockname_make_dir(struct sockname_space *space, int *lock_fd);

/* By who has the lock: removes what nobody has any more, then the lock, and the directory if it is empty then. */
void sockname_clean_dir(const struct sockname_space *space);

/* The daemon's abstract name. */
void sockname_of_daemon(const struct sockname_space *space, struct sockname *out);

/* False: there is no directory. */
bool sockname_of_daemon_file(const struct sockname_space *space, struct sockname *out);

/* slot: 1..CTL_SLOT_MAX. */
void sockname_of_slot(const struct sockname_space *space, unsigned slot, struct sockname *out);

/* Of a session of connection management. */
void sockname_of_session(const struct sockname_space *space, uint32_t session, struct sockname *out);

/* All sessions that have a name, bound or not any more. */
void sockname_each_session(const struct sockname_space *space,
			   void (*each)(uint32_t session, void *arg), void *arg);

/* As bind(2); a file that nobody's socket has any more is replaced. 0 or -errno. */
int sockname_bind(int fd, const struct sockname *name);

/* Whoever has a socket of that name keeps it, without the name. An abstract name stays. */
void sockname_remove(const struct sockname *name);

bool sockname_equal(const struct sockname *a, const struct sockname *b);

#endif
