/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/directory.h"

#include <errno.h>
#include <unistd.h>

static int make(const struct daemon *d, struct sockname_space *space, int *lock_fd)
{
	int rc = d->scope == DAEMON_OF_SYSTEM	   ? sockname_space_of_system(space)
		 : d->scope == DAEMON_OF_DIRECTORY ? sockname_space_of_shared(d->uid, space)
						   : sockname_space_of_user(d->uid, space);

	return rc ? rc : sockname_make_dir(space, lock_fd);
}

int directory_make(struct daemon *d)
{
	return make(d, &d->space, &d->lock_fd);
}

/* Without it clients find the abstract name. */
static void listen_anew(struct daemon *d)
{
	struct sockname name;

	if (d->file.fd < 0)
		return;
	loop_timer_disarm(&d->file.resume);
	listen_fini(&d->file);
	if (sockname_of_daemon_file(&d->space, &name))
		listen_init(&d->file, &name, d->scope == DAEMON_OF_SYSTEM);
}

static int restore(struct daemon *d)
{
	struct sockname_space space;
	int lock_fd, rc = make(d, &space, &lock_fd);

	if (rc)
		return rc;
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	d->lock_fd = lock_fd;
	d->space = space;
	listen_anew(d);
	return 0;
}

int directory_bind(struct daemon *d, int fd,
		   void (*name_of)(const struct sockname_space *space, uint32_t number,
				   struct sockname *out),
		   uint32_t number)
{
	struct sockname name;
	int rc;

	name_of(&d->space, number, &name);
	rc = sockname_bind(fd, &name);
	if ((rc != -ENOENT && rc != -ENOTDIR) || restore(d))
		return rc;
	name_of(&d->space, number, &name);
	return sockname_bind(fd, &name);
}
