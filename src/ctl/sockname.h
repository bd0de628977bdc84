/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket names - the names of unix sockets of the daemon and of tokens.
 *
 * In:  the users that are served: one, or all; the network namespace; the environment variable
 *      VERBATIM_NAMESPACE, which keeps tests apart from everything else.
 * Out: the addresses of the daemon's sockets, and of the tokens of slots and sessions.
 *
 * Sockets lie in a directory that only its user can write to: /run/verbatim for the system's
 * daemon; for a user /run/user/UID/verbatim, else that of XDG_RUNTIME_DIR, else /tmp/verbatim-UID.
 * In it there is one directory for each network namespace (its inode) and VERBATIM_NAMESPACE, which
 * the daemon makes.
 *
 * VERBATIM_SOCKET_DIR names a directory that processes of several network namespaces share, such as
 * containers with a volume in common. Their daemon's sockets and the tokens of their slots are
 * below it, and nowhere else.
 *
 * The daemon has an abstract name, too. Processes that share its network namespace, but do not see
 * the directory, find it there. If there can be no directory, tokens have abstract names as well.
 * Any process may bind an abstract name first, so a process that connects checks SO_PEERCRED.
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
	/* prefix of abstract names, e.g. "verbatim.1000" or "verbatim.system" */
	char text[96];
	char dir[92];				/* of the sockets; "": there is none */
	char leaf[SOCKNAME_NAMESPACE_MAX + 24]; /* dir's last part, also if there is none */
	size_t base_bytes; /* of dir: the part that exists without the daemon */
	uid_t owner;	   /* of the directory, and so of the daemon; root is always trusted */
	bool is_system;
	bool is_shared; /* by several network namespaces: there are no abstract names */
};

struct sockname {
	struct sockaddr_un addr;
	socklen_t len;
};

/* The space of the system's daemon, or of a user's. 0; -ENAMETOOLONG: VERBATIM_NAMESPACE. */
int sockname_space_of_system(struct sockname_space *space);
int sockname_space_of_user(uid_t uid, struct sockname_space *space);

/* VERBATIM_SOCKET_DIR, or NULL. */
const char *sockname_shared_dir(void);

/* A hash of its device and inode; 0: it is not set, or of no use. */
uint32_t sockname_shared_id(void);

/*
 * The space of a user's processes that share it. 0; -EINVAL: it is not set, or no absolute path;
 * -ENAMETOOLONG, also of it; -EPERM: others may write to it, and it has no sticky bit; -EACCES: the
 * user's part of it is not only the user's to write, or it may not be searched; others of stat(2).
 */
int sockname_space_of_shared(uid_t uid, struct sockname_space *space);

/*
 * For the daemon: makes the directory, and holds its lock as long as *lock_fd is open. 0;
 * -EADDRINUSE: another daemon holds it; of a shared directory also other errors. If the directory
 * cannot be made, dir is emptied, and *lock_fd is -1.
 */
int sockname_make_dir(struct sockname_space *space, int *lock_fd);

/*
 * For the daemon that holds the lock: removes names without sockets, then the lock, and the
 * directory if it is empty.
 */
void sockname_clean_dir(const struct sockname_space *space);

/* The daemon's abstract name. */
void sockname_of_daemon(const struct sockname_space *space, struct sockname *out);

/* False: there is no directory. */
bool sockname_of_daemon_file(const struct sockname_space *space, struct sockname *out);

/* slot: 1..CTL_SLOT_MAX. */
void sockname_of_slot(const struct sockname_space *space, unsigned slot, struct sockname *out);

/*
 * Whether a name is that of the slot's token in any directory of this network namespace and
 * VERBATIM_NAMESPACE, or its abstract one.
 */
bool sockname_is_slot_elsewhere(const struct sockname_space *space, unsigned slot,
				const struct sockname *name);

/* Of a session of connection management. */
void sockname_of_session(const struct sockname_space *space, uint32_t session,
			 struct sockname *out);

/* All sessions that have a name, even one that is no longer bound. */
void sockname_each_session(const struct sockname_space *space,
			   void (*each)(uint32_t session, void *arg), void *arg);

/* As bind(2), but replaces a file whose socket is closed. 0 or -errno. */
int sockname_bind(int fd, const struct sockname *name);

/* Sockets of that name live on without it. An abstract name stays. */
void sockname_remove(const struct sockname *name);

bool sockname_equal(const struct sockname *a, const struct sockname *b);

#endif
