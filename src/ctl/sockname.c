/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/sockname.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_BASE "/run/verbatim"
#define LEAF_BYTES  17 /* "/session.01234567" is the longest */
#define SESSION	    "session."
#define SHARED	    "shared"
#define LOCK	    "lock"
#define TRIES	    1000

/*
 * ------------------------------------------------------------------------------------------
 * The directory.
 */

/*
 * 0: only the owner can create files in it; -ENOENT: it is not there; or another error. One look
 * decides, because daemons that begin and end make and remove it.
 */
static int check_owner(const char *path, uid_t uid)
{
	struct stat s;

	if (lstat(path, &s) < 0)
		return -errno;
	return S_ISDIR(s.st_mode) && s.st_uid == uid && !(s.st_mode & 022) ? 0 : -EPERM;
}

static void set_leaf(struct sockname_space *space, const char *name)
{
	struct stat net;

	if (stat("/proc/thread-self/ns/net", &net) < 0 || strchr(name, '/'))
		return;
	snprintf(space->leaf, sizeof(space->leaf), "%ju%s%s", (uintmax_t)net.st_ino,
		 *name ? "." : "", name);
}

/* Sets the directory below `base`, of which base_bytes exist. */
static void set_dir(struct sockname_space *space, const char *base, size_t base_bytes)
{
	int n;

	if (!*space->leaf)
		return;
	n = snprintf(space->dir, sizeof(space->dir), "%s/%s", base, space->leaf);
	if (n < 0 || (size_t)n + LEAF_BYTES >= sizeof(((struct sockaddr_un *)0)->sun_path) ||
	    (size_t)n >= sizeof(space->dir))
		space->dir[0] = '\0';
	space->base_bytes = base_bytes;
}

static void find_dir_of_user(struct sockname_space *space, uid_t uid)
{
	const char *named = secure_getenv("XDG_RUNTIME_DIR");
	char base[64], path[80];
	int rc;

	snprintf(base, sizeof(base), "/run/user/%u", (unsigned)uid);
	if (check_owner(base, uid) && named && strlen(named) < sizeof(base) && *named == '/')
		snprintf(base, sizeof(base), "%s", named);
	if (!check_owner(base, uid)) {
		snprintf(path, sizeof(path), "%s/verbatim", base);
		set_dir(space, path, strlen(base));
		return;
	}
	snprintf(path, sizeof(path), "/tmp/verbatim-%u", (unsigned)uid);
	rc = check_owner(path, uid);
	if (!rc || rc == -ENOENT)
		set_dir(space, path, strlen("/tmp"));
}

static int make_one(const char *path, const struct sockname_space *space)
{
	int rc;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	rc = check_owner(path, space->owner);
	if (rc)
		return rc;
	/* The umask must not apply. */
	return space->is_system && chmod(path, 0755) < 0 ? -errno : 0;
}

static int make_all(const struct sockname_space *space)
{
	char path[sizeof(space->dir)];
	int rc = 0;

	for (size_t i = space->base_bytes + 1; !rc && i <= strlen(space->dir); i++) {
		if (space->dir[i] != '/' && space->dir[i] != '\0')
			continue;
		memcpy(path, space->dir, i);
		path[i] = '\0';
		rc = make_one(path, space);
	}
	return rc;
}

static bool is_there(const char *path, int fd)
{
	struct stat at, of;

	return !stat(path, &at) && !fstat(fd, &of) && at.st_dev == of.st_dev &&
	       at.st_ino == of.st_ino;
}

/*
 * -ENOENT: a daemon that ended at this moment has removed it (sockname_clean_dir). The lock is a
 * file that only the owner can open; any user could lock the directory itself.
 */
static int make_locked(const struct sockname_space *space, int *lock_fd)
{
	char path[sizeof(space->dir) + LEAF_BYTES];
	int fd, rc = make_all(space);

	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%s/" LOCK, space->dir);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* The kernel releases the lock when the daemon ends, however it ends. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		rc = -EADDRINUSE;
	else if (!is_there(path, fd))
		rc = -ENOENT;
	if (rc)
		close(fd);
	else
		*lock_fd = fd;
	return rc;
}

int sockname_make_dir(struct sockname_space *space, int *lock_fd)
{
	int rc = -ENOENT;

	*lock_fd = -1;
	if (!*space->dir)
		return 0;
	for (int i = 0; i < TRIES && rc == -ENOENT; i++)
		rc = make_locked(space, lock_fd);
	/* A shared one has no other name. */
	if (!rc || rc == -EADDRINUSE || space->is_shared)
		return rc;
	space->dir[0] = '\0';
	return 0;
}

static void make_file(const char *dir, const char *leaf, struct sockname *out)
{
	memset(out, 0, sizeof(*out));
	out->addr.sun_family = AF_UNIX;
	snprintf(out->addr.sun_path, sizeof(out->addr.sun_path), "%.90s/%.16s", dir, leaf);
	out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(out->addr.sun_path) +
			       1);
}

/* A file without a socket: connect() fails with ECONNREFUSED, whatever type the socket had. */
static bool is_left_over(const struct sockname *name)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool left = fd >= 0 && connect(fd, (const struct sockaddr *)&name->addr, name->len) < 0 &&
		    errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return left;
}

void sockname_clean_dir(const struct sockname_space *space)
{
	DIR *dir = *space->dir ? opendir(space->dir) : NULL;
	struct sockname name;

	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (*e->d_name == '.' || !strcmp(e->d_name, LOCK) ||
		    strlen(e->d_name) > LEAF_BYTES - 1)
			continue;
		make_file(space->dir, e->d_name, &name);
		if (is_left_over(&name))
			unlink(name.addr.sun_path);
	}
	if (!dir)
		return;
	closedir(dir);
	/* The lock goes last: from here on another daemon may use the directory. */
	make_file(space->dir, LOCK, &name);
	unlink(name.addr.sun_path);
	rmdir(space->dir);
}

/*
 * ------------------------------------------------------------------------------------------
 * Spaces.
 */

/* *name: VERBATIM_NAMESPACE, or "". */
static int make_space(const char *whose, struct sockname_space *space, const char **name)
{
	const char *value = secure_getenv("VERBATIM_NAMESPACE");

	memset(space, 0, sizeof(*space));
	*name = value ? value : "";
	if (strlen(*name) > SOCKNAME_NAMESPACE_MAX)
		return -ENAMETOOLONG;
	snprintf(space->text, sizeof(space->text), "verbatim.%s%s%s", whose, **name ? "." : "",
		 *name);
	set_leaf(space, *name);
	return 0;
}

int sockname_space_of_system(struct sockname_space *space)
{
	const char *name;
	struct stat s;
	int rc = make_space("system", space, &name);

	if (rc)
		return rc;
	space->is_system = true;
	/* Only root can have made it, perhaps a service manager for another user. */
	space->owner = !lstat(SYSTEM_BASE, &s) && S_ISDIR(s.st_mode) ? s.st_uid : 0;
	set_dir(space, SYSTEM_BASE, strlen("/run"));
	return 0;
}

int sockname_space_of_user(uid_t uid, struct sockname_space *space)
{
	const char *name;
	char whose[16];
	int rc;

	snprintf(whose, sizeof(whose), "%u", (unsigned)uid);
	rc = make_space(whose, space, &name);
	if (rc)
		return rc;
	space->owner = uid;
	if (uid == geteuid())
		find_dir_of_user(space, uid);
	return 0;
}

const char *sockname_shared_dir(void)
{
	const char *dir = secure_getenv("VERBATIM_SOCKET_DIR");

	return dir && *dir ? dir : NULL;
}

/*
 * Others may write to the directory itself, as to /tmp; each user has a part of it. Without the
 * sticky bit they could move that part away, and put one of theirs in its place.
 */
static int check_shared(const char *dir, struct stat *s)
{
	if (!dir || *dir != '/')
		return -EINVAL;
	if (stat(dir, s) < 0)
		return -errno;
	if (!S_ISDIR(s->st_mode))
		return -ENOTDIR;
	if ((s->st_mode & 022) && !(s->st_mode & S_ISVTX))
		return -EPERM;
	return access(dir, X_OK) < 0 ? -errno : 0;
}

uint32_t sockname_shared_id(void)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a, folded to 32 bits */
	struct stat s;

	if (check_shared(sockname_shared_dir(), &s))
		return 0;
	hash = (hash ^ s.st_dev) * 0x100000001b3;
	hash = (hash ^ s.st_ino) * 0x100000001b3;
	hash ^= hash >> 32;
	return (uint32_t)hash ? (uint32_t)hash : 1;
}

static size_t length_without_slashes(const char *dir)
{
	size_t len = strlen(dir);

	while (len && dir[len - 1] == '/')
		len--;
	return len;
}

int sockname_space_of_shared(uid_t uid, struct sockname_space *space)
{
	const char *dir = sockname_shared_dir(), *name;
	char base[sizeof(space->dir)];
	size_t len;
	struct stat s;
	int rc, n;

	rc = make_space(SHARED, space, &name);
	if (!rc)
		rc = check_shared(dir, &s);
	if (rc)
		return rc;
	if (strchr(name, '/'))
		return -ENAMETOOLONG;
	space->is_shared = true;
	space->owner = uid;
	len = length_without_slashes(dir);
	snprintf(space->leaf, sizeof(space->leaf), SHARED "%s%s", *name ? "." : "", name);
	if (len >= sizeof(base))
		return -ENAMETOOLONG;
	n = snprintf(base, sizeof(base), "%.*s/verbatim-%u", (int)len, dir, (unsigned)uid);
	if (n < 0 || (size_t)n >= sizeof(base))
		return -ENAMETOOLONG;
	rc = check_owner(base, uid);
	if (rc && rc != -ENOENT)
		return rc == -EPERM ? -EACCES : rc;
	set_dir(space, base, len);
	return *space->dir ? 0 : -ENAMETOOLONG;
}

/*
 * ------------------------------------------------------------------------------------------
 * Names.
 */

static void make_abstract(const char *text, struct sockname *out)
{
	size_t len = strlen(text);

	memset(out, 0, sizeof(*out));
	out->addr.sun_family = AF_UNIX;
	memcpy(out->addr.sun_path + 1, text, len);
	out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

void sockname_of_daemon(const struct sockname_space *space, struct sockname *out)
{
	make_abstract(space->text, out);
}

bool sockname_of_daemon_file(const struct sockname_space *space, struct sockname *out)
{
	if (!*space->dir)
		return false;
	make_file(space->dir, "daemon", out);
	return true;
}

static void make_token(const struct sockname_space *space, const char *leaf, struct sockname *out)
{
	char text[sizeof(out->addr.sun_path)];

	if (*space->dir) {
		make_file(space->dir, leaf, out);
		return;
	}
	snprintf(text, sizeof(text), "%.85s.%.17s", space->text, leaf);
	make_abstract(text, out);
}

void sockname_of_slot(const struct sockname_space *space, unsigned slot, struct sockname *out)
{
	char leaf[LEAF_BYTES];

	snprintf(leaf, sizeof(leaf), "slot.%u", slot);
	make_token(space, leaf, out);
}

void sockname_of_session(const struct sockname_space *space, uint32_t session, struct sockname *out)
{
	char leaf[LEAF_BYTES];

	snprintf(leaf, sizeof(leaf), SESSION "%08" PRIx32, session);
	make_token(space, leaf, out);
}

bool sockname_is_slot_elsewhere(const struct sockname_space *space, unsigned slot,
				const struct sockname *name)
{
	char path[sizeof(name->addr.sun_path) + 1] = "", end[sizeof(space->leaf) + LEAF_BYTES + 2];
	char text[sizeof(path)];
	struct sockname abstract;
	size_t len, end_len;

	snprintf(text, sizeof(text), "%.85s.slot.%u", space->text, slot);
	make_abstract(text, &abstract);
	if (sockname_equal(name, &abstract))
		return true;
	memcpy(path, name->addr.sun_path, sizeof(name->addr.sun_path));
	len = strlen(path);
	end_len = (size_t)snprintf(end, sizeof(end), "/%s/slot.%u", space->leaf, slot);
	return *space->leaf && len > end_len && !strcmp(path + len - end_len, end);
}

static void visit_session(const char *digits, void (*each)(uint32_t session, void *arg), void *arg)
{
	uint32_t session;
	int end;

	if (sscanf(digits, "%8" SCNx32 "%n", &session, &end) == 1 && end == 8)
		each(session, arg);
}

static void each_abstract_session(const struct sockname_space *space,
				  void (*each)(uint32_t session, void *arg), void *arg)
{
	char prefix[sizeof(space->text) + 16], line[256];
	FILE *f = fopen("/proc/net/unix", "re");

	snprintf(prefix, sizeof(prefix), "@%.85s." SESSION, space->text);
	while (f && fgets(line, sizeof(line), f)) {
		const char *name = strchr(line, '@');

		if (name && !strncmp(name, prefix, strlen(prefix)))
			visit_session(name + strlen(prefix), each, arg);
	}
	if (f)
		fclose(f);
}

void sockname_each_session(const struct sockname_space *space,
			   void (*each)(uint32_t session, void *arg), void *arg)
{
	DIR *dir = *space->dir ? opendir(space->dir) : NULL;

	if (!*space->dir)
		each_abstract_session(space, each, arg);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (!strncmp(e->d_name, SESSION, strlen(SESSION)))
			visit_session(e->d_name + strlen(SESSION), each, arg);
	}
	if (dir)
		closedir(dir);
}

int sockname_bind(int fd, const struct sockname *name)
{
	int rc = bind(fd, (const struct sockaddr *)&name->addr, name->len) < 0 ? -errno : 0;

	if (rc != -EADDRINUSE || !*name->addr.sun_path || !is_left_over(name))
		return rc;
	unlink(name->addr.sun_path);
	return bind(fd, (const struct sockaddr *)&name->addr, name->len) < 0 ? -errno : 0;
}

void sockname_remove(const struct sockname *name)
{
	if (*name->addr.sun_path)
		unlink(name->addr.sun_path);
}

bool sockname_equal(const struct sockname *a, const struct sockname *b)
{
	return a->len == b->len && !memcmp(&a->addr, &b->addr, a->len);
}
