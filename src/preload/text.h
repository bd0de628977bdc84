/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text - the contents of the files of the tree, and the targets of its links.
 *
 * In:  a view, the index of a device in it (-1: none), the index of a GID.
 * Out: the text as the kernel writes it; that of a file ends in a newline. Functions return its
 *      length, as snprintf does, or -errno where the kernel's file fails to be read.
 */
#ifndef PRELOAD_TEXT_H
#define PRELOAD_TEXT_H

#include <stddef.h>

#include "preload/view.h"

typedef int (*text_fn)(const struct view *view, int device, int index, char *text, size_t size);

/* Classes: /sys/class/infiniband, /sys/class/infiniband_verbs */
int text_class_link(const struct view *view, int device, int index, char *text, size_t size);
int text_verbs_abi(const struct view *view, int device, int index, char *text, size_t size);
int text_uverbs_link(const struct view *view, int device, int index, char *text, size_t size);

/* The PCI function, which adapters have. NUMA node and CPUs are those of the network interface. */
int text_pci_class(const struct view *view, int device, int index, char *text, size_t size);
int text_pci_device(const struct view *view, int device, int index, char *text, size_t size);
int text_pci_vendor(const struct view *view, int device, int index, char *text, size_t size);
int text_local_cpulist(const struct view *view, int device, int index, char *text, size_t size);
int text_local_cpus(const struct view *view, int device, int index, char *text, size_t size);
int text_numa_node(const struct view *view, int device, int index, char *text, size_t size);
int text_net_link(const struct view *view, int device, int index, char *text, size_t size);

/* The device */
int text_device_abi(const struct view *view, int device, int index, char *text, size_t size);
int text_dev(const struct view *view, int device, int index, char *text, size_t size);
int text_device_link(const struct view *view, int device, int index, char *text, size_t size);
int text_subsystem_link(const struct view *view, int device, int index, char *text, size_t size);
int text_name(const struct view *view, int device, int index, char *text, size_t size);
int text_board_id(const struct view *view, int device, int index, char *text, size_t size);
int text_fw_ver(const struct view *view, int device, int index, char *text, size_t size);
int text_hca_type(const struct view *view, int device, int index, char *text, size_t size);
int text_hw_rev(const struct view *view, int device, int index, char *text, size_t size);
int text_node_desc(const struct view *view, int device, int index, char *text, size_t size);
int text_guid(const struct view *view, int device, int index, char *text, size_t size);
int text_node_type(const struct view *view, int device, int index, char *text, size_t size);

/* Its port */
int text_cap_mask(const struct view *view, int device, int index, char *text, size_t size);
int text_lid(const struct view *view, int device, int index, char *text, size_t size);
int text_link_layer(const struct view *view, int device, int index, char *text, size_t size);
int text_phys_state(const struct view *view, int device, int index, char *text, size_t size);
int text_rate(const struct view *view, int device, int index, char *text, size_t size);
int text_sm_lid(const struct view *view, int device, int index, char *text, size_t size);
int text_state(const struct view *view, int device, int index, char *text, size_t size);
int text_zero(const struct view *view, int device, int index, char *text, size_t size);
int text_gid(const struct view *view, int device, int index, char *text, size_t size);
int text_gid_ndev(const struct view *view, int device, int index, char *text, size_t size);
int text_gid_type(const struct view *view, int device, int index, char *text, size_t size);
int text_pkey(const struct view *view, int device, int index, char *text, size_t size);

#endif
