/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/identity.h"
#include "base/lid.h"

#define UVERBS_MAJOR 231
#define UVERBS_MINOR 192

/* The head of each text function (text_fn). */
#define TEXT(function)                                                                             \
	int function(const struct view *view, int device, int index, char *text, size_t size)

TEXT(text_class_link)
{
	char name[VIEW_NAME_MAX];

	view_name(view, device, name);
	return snprintf(text, size, "../../devices/verbatim/%s/infiniband/%s", name, name);
}

TEXT(text_uverbs_link)
{
	char name[VIEW_NAME_MAX];

	view_name(view, device, name);
	return snprintf(text, size, "../../devices/verbatim/%s/infiniband_verbs/uverbs%d", name,
			device);
}

TEXT(text_pci_device)
{
	const char *value = secure_getenv("VERBATIM_VENDOR_PART_ID");
	unsigned long id = value && *value ? strtoul(value, NULL, 0) : IDENTITY_VENDOR_PART_ID;

	return snprintf(text, size, "0x%04lx\n", id & 0xffff);
}

TEXT(text_pci_vendor)
{
	return snprintf(text, size, "0x%04x\n", IDENTITY_VENDOR_ID & 0xffff);
}

/* Reads a file of sysfs. Returns the length, 0 if there is none. */
static int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return 0;
	len = read(fd, text, size - 1);
	close(fd);
	if (len <= 0)
		return 0;
	text[len] = 0;
	return len;
}

static int read_of_interface(const struct view *view, int device, const char *file, char *text,
			     size_t size)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/%s", view->devices[device].name,
		 file);
	return read_text(path, text, size);
}

TEXT(text_local_cpulist)
{
	int len = read_of_interface(view, device, "local_cpulist", text, size);

	if (len == 0)
		len = read_text("/sys/devices/system/cpu/online", text, size);
	return len ? len : snprintf(text, size, "0\n");
}

/*
 * Prints a CPU list such as "0-3,8" as a mask: words of 32 bits, the highest first. Returns the
 * length.
 */
static int print_mask(const char *list, char *text, size_t size)
{
	uint32_t words[32] = { 0 };
	int top = 0, len;

	while (*list) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (end == list)
			break;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long cpu = first; cpu <= last && cpu < 32 * 32; cpu++) {
			words[cpu / 32] |= UINT32_C(1) << cpu % 32;
			top = (int)(cpu / 32) > top ? (int)(cpu / 32) : top;
		}
		list = *end == ',' ? end + 1 : end;
	}
	len = snprintf(text, size, "%x", words[top]);
	while (top > 0 && len < (int)size)
		len += snprintf(text + len, size - len, ",%08x", words[--top]);
	if (len < (int)size)
		len += snprintf(text + len, size - len, "\n");
	return len;
}

TEXT(text_local_cpus)
{
	int len = read_of_interface(view, device, "local_cpus", text, size);
	char list[512];

	if (len)
		return len;
	text_local_cpulist(view, device, index, list, sizeof(list));
	return print_mask(list, text, size);
}

TEXT(text_numa_node)
{
	int len = read_of_interface(view, device, "numa_node", text, size);

	return len ? len : snprintf(text, size, "-1\n");
}

TEXT(text_net_link)
{
	return snprintf(text, size, "../../../../class/net/%s", view->devices[device].name);
}

TEXT(text_dev)
{
	return snprintf(text, size, "%d:%d\n", UVERBS_MAJOR, UVERBS_MINOR + device);
}

TEXT(text_device_link)
{
	char name[VIEW_NAME_MAX];

	view_name(view, device, name);
	return snprintf(text, size, "../../../%s", name);
}

TEXT(text_name)
{
	char name[VIEW_NAME_MAX];

	view_name(view, device, name);
	return snprintf(text, size, "%s\n", name);
}

TEXT(text_hw_rev)
{
	return snprintf(text, size, "%x\n", IDENTITY_HW_VER);
}

TEXT(text_node_desc)
{
	char name[VIEW_NAME_MAX], host[64] = "";

	view_name(view, device, name);
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = 0;
	return snprintf(text, size, "%s %s\n", host, name);
}

TEXT(text_guid)
{
	uint64_t guid = interface_guid(&view->devices[device]);

	return snprintf(text, size, "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48),
			(unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
			(unsigned)guid & 0xffff);
}

TEXT(text_node_type)
{
	return view->iwarp ? snprintf(text, size, "%d: RNIC\n", IBV_NODE_RNIC)
			   : snprintf(text, size, "%d: CA\n", IBV_NODE_CA);
}

TEXT(text_cap_mask)
{
	return snprintf(text, size, "0x%08x\n",
			view->iwarp	   ? IDENTITY_RNIC_CAP_FLAGS
			: view->infiniband ? IDENTITY_PORT_CAP_FLAGS
					   : IDENTITY_PORT_CAP_FLAGS | IDENTITY_ROCE_CAP_FLAGS);
}

/* The LID; 0 on Ethernet, and for an interface without an IPv4 address. */
static uint16_t find_lid(const struct view *view, int device)
{
	return view->infiniband ? lid_of(&view->devices[device].gid[0]) : 0;
}

TEXT(text_lid)
{
	return snprintf(text, size, "0x%x\n", find_lid(view, device));
}

/* As soft-RoCE counts: how often the interface has lost its carrier. */
TEXT(text_link_downed)
{
	char path[128];
	int len;

	snprintf(path, sizeof(path), "/sys/class/net/%s/carrier_down_count",
		 view->devices[device].name);
	len = read_text(path, text, size);
	return len ? len : -EINVAL;
}

TEXT(text_link_layer)
{
	return snprintf(text, size, view->infiniband ? "InfiniBand\n" : "Ethernet\n");
}

TEXT(text_phys_state)
{
	if (view->devices[device].running)
		return snprintf(text, size, "%d: LinkUp\n", IDENTITY_PHYS_STATE_LINK_UP);
	return snprintf(text, size, "%d: Disabled\n", IDENTITY_PHYS_STATE_DISABLED);
}

TEXT(text_state)
{
	if (!view->devices[device].running)
		return snprintf(text, size, "%d: DOWN\n", IBV_PORT_DOWN);
	if (view->infiniband && !find_lid(view, device))
		return snprintf(text, size, "%d: INIT\n", IBV_PORT_INIT);
	return snprintf(text, size, "%d: ACTIVE\n", IBV_PORT_ACTIVE);
}

/* False: the slot is empty. */
static bool find_gid(const struct view *view, int device, int index, union ibv_gid *gid)
{
	const struct interface *interface = &view->devices[device];

	memset(gid, 0, sizeof(*gid));
	if (view->iwarp && index == 0)
		interface_rnic_gid(interface, gid);
	if (view->iwarp)
		return index == 0;
	if (index >= interface->ipv4 + interface->ipv6)
		return false;
	if (view->infiniband)
		return lid_show_gid(&interface->gid[index], gid);
	*gid = interface->gid[index];
	return true;
}

TEXT(text_gid)
{
	union ibv_gid gid;
	int len = 0;

	find_gid(view, device, index, &gid);
	for (int i = 0; i < 16 && len < (int)size; i += 2)
		len += snprintf(text + len, size - len, "%02x%02x%s", gid.raw[i], gid.raw[i + 1],
				i == 14 ? "\n" : ":");
	return len;
}

TEXT(text_gid_ndev)
{
	union ibv_gid gid;

	if (view->infiniband || !find_gid(view, device, index, &gid))
		return -EINVAL;
	return snprintf(text, size, "%s\n", view->devices[device].name);
}

TEXT(text_gid_type)
{
	union ibv_gid gid;

	if (!find_gid(view, device, index, &gid))
		return -EINVAL;
	return snprintf(text, size, view->infiniband || view->iwarp ? "IB/RoCE v1\n" : "RoCE v2\n");
}

TEXT(text_pkey)
{
	return snprintf(text, size, "0x%04x\n", IDENTITY_PKEY);
}
