/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/port_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/gid.h"
#include "daemon/service.h"

bool port_store_is_used(const struct daemon *d)
{
	return d->scope == DAEMON_OF_SYSTEM && service_is_managed();
}

/* A name as a service manager allows it: without a colon. */
static void make_name(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, char *out)
{
	char *p = out + sprintf(out, PORT_STORE_PREFIX);

	for (int i = 0; i < CTL_GID_BYTES; i++)
		p += sprintf(p, "%02x", gid[i]);
	sprintf(p, "-%" PRIu32, ifindex);
}

bool port_store_read_name(const char *name, uint8_t gid[CTL_GID_BYTES], uint32_t *ifindex)
{
	char again[PORT_STORE_NAME_BYTES];
	const char *p = name + strlen(PORT_STORE_PREFIX);
	unsigned byte;

	if (strncmp(name, PORT_STORE_PREFIX, strlen(PORT_STORE_PREFIX)) ||
	    strlen(p) < 2 * CTL_GID_BYTES + 2)
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
	char name[PORT_STORE_NAME_BYTES], message[128], text[GID_TEXT_BYTES];
	int rc;

	if (!port_store_is_used(d))
		return;
	make_name(g->gid, g->ifindex, name);
	/* FDPOLL=0: neither descriptor ever hangs up, so the manager need not watch them. */
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

void port_store_remove_name(const char *name)
{
	char message[128];

	snprintf(message, sizeof(message), "FDSTOREREMOVE=1\nFDNAME=%.60s", name);
	service_notify(message, NULL, 0);
}

void port_store_remove(struct daemon *d, const struct port_group *g)
{
	char name[PORT_STORE_NAME_BYTES];

	if (!port_store_is_used(d))
		return;
	make_name(g->gid, g->ifindex, name);
	port_store_remove_name(name);
}
