#include "daemon/port_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gid.h"
#include "daemon/ports.h"
#include "daemon/service.h"

#define PREFIX	   "port-"
#define NAME_BYTES 64

static bool is_stored(const struct daemon *d)
{
	return d->scope == DAEMON_OF_SYSTEM && service_is_managed();
}

/* A name as a service manager allows it: without a colon. */
static void make_name(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, char *out)
{
	char *p = out + sprintf(out, PREFIX);

	for (int i = 0; i < CTL_GID_BYTES; i++)
		p += sprintf(p, "%02x", gid[i]);
	sprintf(p, "-%" PRIu32, ifindex);
}

/* False: it is no name of a port. */
static bool read_name(const char *name, uint8_t gid[CTL_GID_BYTES], uint32_t *ifindex)
{
	char again[NAME_BYTES];
	const char *p = name + strlen(PREFIX);
	unsigned byte;

	if (strncmp(name, PREFIX, strlen(PREFIX)) || strlen(p) < 2 * CTL_GID_BYTES + 2)
		return false;
	for (int i = 0; i < CTL_GID_BYTES; i++, p += 2) {
		if (sscanf(p, "%2x", &byte) != 1)
			return false;
		gid[i] = (uint8_t)byte;
	}
	if (sscanf(p, "-%" SCNu32, ifindex) != 1)
		return false;
	make_name(gid, *ifindex, again);
	return !strcmp(again, name);
}

void port_store_add(struct daemon *d, const struct port_group *g)
{
	const int fds[] = { g->fd_store->fd, g->record_fd };
	char name[NAME_BYTES], message[128], text[GID_TEXT_BYTES];
	int rc;

	if (!is_stored(d))
		return;
	make_name(g->gid, g->ifindex, name);
	/* The manager need not watch them: neither ever has an end to tell of. */
	snprintf(message, sizeof(message), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	rc = service_notify(message, fds, 2);
	if (!rc)
		return;
	gid_text(g->gid, text);
	fprintf(stderr,
		"verbatimd: UDP port %d of %s cannot be stored with the service manager: %s; "
		"should verbatimd be "
		"killed, it is lost until the processes that use it have ended\n",
		CTL_UDP_PORT, text, strerror(-rc));
}

static void remove_name(const char *name)
{
	char message[128];

	snprintf(message, sizeof(message), "FDSTOREREMOVE=1\nFDNAME=%.60s", name);
	service_notify(message, NULL, 0);
}

void port_store_remove(struct daemon *d, const struct port_group *g)
{
	char name[NAME_BYTES];

	if (!is_stored(d))
		return;
	make_name(g->gid, g->ifindex, name);
	remove_name(name);
}

/* ------------------------------------------------------------------------------------------
 * What an earlier daemon left.
 */

struct found {
	char name[NAME_BYTES];
	int fd_store, record_fd; /* -1: not found yet */
};

/* Takes the first port's pair: two descriptors of the same name. */
static bool take_pair(int fd, const char *name, void *arg)
{
	struct found *f = arg;
	struct stat s;
	int *place;

	if (strncmp(name, PREFIX, strlen(PREFIX)) || strlen(name) >= sizeof(f->name))
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

	if (!read_name(f->name, gid, &ifindex) || f->fd_store < 0 || f->record_fd < 0)
		return -EPROTO;
	return ports_restore(d, gid, ifindex, f->fd_store, f->record_fd);
}

/* Groups whose processes have all ended meanwhile would keep the port for ever. */
static void on_returned(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, returned);

	if (ports_give_up_dead(d))
		loop_timer_arm(&d->loop, timer, PORT_STORE_RETURN_MS);
}

void port_store_look_soon(struct daemon *d)
{
	loop_timer_arm(&d->loop, &d->returned, PORT_STORE_SOON_MS);
}

void port_store_restore(struct daemon *d)
{
	loop_timer_init(&d->returned, on_returned);
	if (!is_stored(d))
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
			remove_name(f.name);
		}
		if (f.fd_store >= 0)
			close(f.fd_store);
		if (f.record_fd >= 0)
			close(f.record_fd);
	}
	loop_timer_arm(&d->loop, &d->returned, PORT_STORE_RETURN_MS);
}
