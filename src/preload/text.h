/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text - the contents of the files of the tree, and the targets of its links, where they are not
 * constant.
 *
 * In:  a view, the index of a device in it (-1: none), the index of a GID.
 * Out: the text as the kernel writes it; that of a file ends in a newline. Functions return its
 *      length, as snprintf does, or -errno where the kernel's file fails to be read.
 */
#ifndef PRELOAD_TEXT_H
#define PRELOAD_TEXT_H

#include <stddef.h>

#include "preload/view.h"

typedef int text_fn(const struct view *view, int device, int index, char *text, size_t size);

/* Classes: /sys/class/infiniband, /sys/class/infiniband_verbs */
text_fn text_class_link, text_uverbs_link;

/* The PCI function, which adapters have. NUMA node and CPUs are those of the network interface. */
text_fn text_pci_device, text_pci_vendor, text_local_cpulist, text_local_cpus, text_numa_node;
text_fn text_net_link;

/* The device */
text_fn text_dev, text_device_link, text_name, text_hw_rev, text_node_desc, text_guid;
text_fn text_node_type;

/* Its port */
text_fn text_cap_mask, text_lid, text_link_downed, text_link_layer, text_phys_state, text_state;
text_fn text_gid, text_gid_ndev, text_gid_type, text_pkey;

#endif
