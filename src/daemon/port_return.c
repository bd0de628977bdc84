/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/port_return.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/port_store.h"
#include "daemon/ports.h"
#include "daemon/service.h"

struct found {
	char name[PORT_STORE_NAME_BYTES];
	int fd_store, record_fd; /* -1: not found yet */
};

/* Takes the first port's pair: two descriptors of the same name. */
static bool take_pair(int fd, const char *name, void *arg)
{
	struct found *f = arg;
	struct stat s;
	int *place;

	if (strncmp(name, PORT_STORE_PREFIX, strlen(PORT_STORE_PREFIX)) ||
	    strlen(name) >= sizeof(f->name))
		return false;
	if (!*f->name)
		strcpy(f->name, name);
	if (strcmp(f->name, name) || fstat(fd, &s) < 0)
		return false;
	place = S_ISSOCK(s.st_mode) ? &f->fd_store : &f->record_fd;
	/* Of two sockets, or two records, the first counts. */
	if (*place >= 0)
		close(fd);
	else
		*place = fd;
	return true;
}

static int restore_one(struct daemon *d, const struct found *f)
{
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;

	if (!port_store_read_name(f->name, gid, &ifindex) || f->fd_store < 0 || f->record_fd < 0)
		return -EPROTO;
	return ports_restore(d, gid, ifindex, f->fd_store, f->record_fd);
}

/* Groups whose processes have all ended meanwhile would keep the port for ever. */
static void on_returned(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, returned);

	if (ports_give_up_dead(d))
		loop_timer_arm(&d->loop, timer, PORT_RETURN_MS);
}

void port_return_init(struct daemon *d)
{
	loop_timer_init(&d->returned, on_returned);
	if (!port_store_is_used(d))
		return;
	for (;;) {
		struct found f = { .fd_store = -1, .record_fd = -1 };
		int rc;

		service_each(take_pair, &f);
		if (!*f.name)
			break;
		rc = restore_one(d, &f);
		if (rc) {
			fprintf(stderr, "verbatimd: what was stored as %s is of no use: %s\n",
				f.name, strerror(-rc));
			port_store_remove_name(f.name);
		}
		if (f.fd_store >= 0)
			close(f.fd_store);
		if (f.record_fd >= 0)
			close(f.record_fd);
	}
	loop_timer_arm(&d->loop, &d->returned, PORT_RETURN_MS);
}
