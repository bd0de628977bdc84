/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * View - the list of devices, without opening one.
 *
 * In:  the network interfaces, VERBATIM_DEVICES.
 * Out: an entry for each device, in the order of ibv_get_device_list.
 *
 * No state: each view_load reads the interfaces anew, as ibv_get_device_list does. Makes system
 * calls and allocates. Any thread.
 */
#ifndef PRELOAD_VIEW_H
#define PRELOAD_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "netdev/interface.h"

#define VIEW_NAME_MAX DEVICE_NAME_MAX
#define VIEW_GIDS     (INTERFACE_GIDS + 1) /* entries of the GID table; the last is empty */

struct view {
	struct interface *devices;
	int count;
	bool infiniband; /* the link mode: base/lid.h */
	bool iwarp;	 /* the devices are RNICs: base/transport.h */
};

/* 0 or -errno. The caller frees the view with view_free. */
int view_load(struct view *out);
void view_free(struct view *view);

/* The name of a device: vrb_<interface>, or vrbw_<interface>. */
void view_name(const struct view *view, int device, char name[VIEW_NAME_MAX]);

#endif
