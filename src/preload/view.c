/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/view.h"

#include <stdlib.h>
#include <strings.h>

#include "base/transport.h"

int view_load(struct view *out)
{
	const char *link = secure_getenv("VERBATIM_LINK_LAYER");
	char first[IF_NAMESIZE];
	int found = interface_scan(&out->devices);

	if (found < 0)
		return found;
	interface_default(first);
	out->count = interface_order(out->devices, found, first, secure_getenv("VERBATIM_DEVICES"));
	out->iwarp = transport_is_iwarp();
	out->infiniband = !out->iwarp && link && strcasecmp(link, "infiniband") == 0;
	return 0;
}

void view_free(struct view *view)
{
	free(view->devices);
}

void view_name(const struct view *view, int device, char name[VIEW_NAME_MAX])
{
	interface_device_name(&view->devices[device], name);
}
