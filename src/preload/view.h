/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * View - the devices as verbs shows them, seen without opening one.
 *
 * In:  the network interfaces of now, VERBATIM_DEVICES.
 * Out: one entry for each device, in the order of ibv_get_device_list.
 *
 * No state: each look makes a new view, so that it is as young as what verbs would say. Makes
 * system calls and allocates.
 */
#ifndef PRELOAD_VIEW_H
#define PRELOAD_VIEW_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "netdev/interface.h"

#define VIEW_NAME_MAX (sizeof(DEVICE_PREFIX) - 1 + IF_NAMESIZE)
#define VIEW_GIDS     (INTERFACE_GIDS + 1) /* the last slot is empty */

struct view {
	struct interface *devices;
	int count;
	bool infiniband; /* the link mode: base/lid.h */
};

/* 0 or -errno. */
int view_load(struct view *out);
void view_free(struct view *view);

/* The name of a device: vrb_<interface>. */
void view_name(const struct view *view, int device, char name[VIEW_NAME_MAX]);

#endif
