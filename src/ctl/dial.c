/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/sockname.h"

/* Only root, and the owner of the directory, may run the daemon. */
static int check_owner(int sock, const struct sockname_space *space, const struct sockname *name,
		       char *why, size_t why_len)
{
	bool is_abstract = !*name->addr.sun_path;
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.uid == 0 || peer.uid == geteuid() ||
	    (space->is_system && peer.uid == space->owner))
		return 0;
	snprintf(
		why, why_len,
		"the socket %s%s is held by process %d of user %u, which is not verbatimd; ask the "
		"administrator to end that process",
		is_abstract ? "@" : "", name->addr.sun_path + is_abstract, (int)peer.pid,
		(unsigned)peer.uid);
	return -EPERM;
}

static int dial_name(const struct sockname_space *space, const struct sockname *name, int *out,
		     char *why, size_t why_len)
{
	bool is_abstract = !*name->addr.sun_path;
	int rc = 0;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock < 0) {
		rc = -errno;
		if (why_len)
			snprintf(why, why_len, "no socket for verbatimd: %s", strerror(-rc));
		return rc;
	}
	if (connect(sock, (const struct sockaddr *)&name->addr, name->len) < 0) {
		rc = errno == EINTR ? -EAGAIN : -errno;
		if (why_len)
			snprintf(why, why_len, "verbatimd cannot be reached at %s%s: %s",
				 is_abstract ? "@" : "", name->addr.sun_path + is_abstract,
				 strerror(-rc));
	} else {
		rc = check_owner(sock, space, name, why, why_len);
	}
	if (rc) {
		close(sock);
		return rc;
	}
	*out = sock;
	return 0;
}

/* The directory first, then the abstract name, which any process may bind. */
static int dial_space(const struct sockname_space *space, int *out, char *why, size_t why_len)
{
	struct sockname name;
	bool has_dir = sockname_of_daemon_file(space, &name);
	int rc = has_dir ? dial_name(space, &name, out, why, why_len) : -ECONNREFUSED;

	if (!rc || rc == -EAGAIN)
		return rc;
	sockname_of_daemon(space, &name);
	rc = dial_name(space, &name, out, why, why_len);
	/*
	 * Another user's process must not keep this one from the directory's daemon, whether it
	 * listens at the abstract name, or keeps its queue there full (-EAGAIN).
	 */
	return (rc == -EPERM || rc == -EAGAIN) && has_dir ? -ECONNREFUSED : rc;
}

static const char *explain_dir(int rc)
{
	switch (rc) {
	case -EINVAL:
		return "it is no absolute path";
	case -ENAMETOOLONG:
		return "with VERBATIM_NAMESPACE it is too long for the name of a socket";
	case -EPERM:
		return "others may write to it, and it has no sticky bit; chmod +t";
	case -EACCES:
		return "it may not be searched, or others may write to this user's part of it";
	default:
		return strerror(-rc);
	}
}

static int dial_shared(int *sock, char *why, size_t why_len)
{
	struct sockname_space space;
	struct sockname name;
	int rc = sockname_space_of_shared(geteuid(), &space);

	if (rc) {
		const char *dir = sockname_shared_dir();

		snprintf(why, why_len, "VERBATIM_SOCKET_DIR, %.90s: %s",
			 dir ? dir : "which is gone", explain_dir(rc));
		return rc;
	}
	sockname_of_daemon_file(&space, &name);
	rc = dial_name(&space, &name, sock, why, why_len);
	return rc == -ENOENT ? -ECONNREFUSED : rc;
}

int dial_running(enum dial_which which, int *sock, enum dial_which *reached, char *why,
		 size_t why_len)
{
	struct sockname_space space;
	int rc = -ECONNREFUSED;

	if (which == DIAL_SHARED) {
		*reached = DIAL_SHARED;
		return dial_shared(sock, why, why_len);
	}
	if (sockname_space_of_system(&space)) {
		snprintf(why, why_len, "VERBATIM_NAMESPACE is longer than %d characters",
			 SOCKNAME_NAMESPACE_MAX);
		return -ENAMETOOLONG;
	}
	if (which != DIAL_USER) {
		rc = dial_space(&space, sock, why, why_len);
		if (!rc)
			*reached = DIAL_SYSTEM;
		/*
		 * Another user's process on the system's name must not keep users from their own
		 * daemon.
		 */
		if (which == DIAL_SYSTEM || (rc != -ECONNREFUSED && rc != -EPERM))
			return rc;
	}
	sockname_space_of_user(geteuid(), &space);
	rc = dial_space(&space, sock, why, why_len);
	if (!rc)
		*reached = DIAL_USER;
	return rc;
}
