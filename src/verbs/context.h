/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Context - opens a device: ibv_open_device, ibv_import_device.
 */
#ifndef VERBS_CONTEXT_H
#define VERBS_CONTEXT_H

#include <infiniband/verbs.h>

struct device;
struct cmd_fd;

/*
 * Opens a context of the device, and starts this process's adapter with the first. With `fd` >= 0
 * the context owns it as cmd_fd, and `identity` is what cmd_fd_read found in it. NULL and errno,
 * and a cause.
 */
struct ibv_context *context_open(struct device *device, int fd, const struct cmd_fd *identity);

#endif
