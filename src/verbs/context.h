/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Context - opening a device (ibv_open_device, ibv_import_device).
 */
#ifndef VERBS_CONTEXT_H
#define VERBS_CONTEXT_H

#include <infiniband/verbs.h>

struct device;
struct cmd_fd;

/*
 * A context of the device, which starts this process's adapter if it has none. With `fd` >= 0 the
 * context takes that for its cmd_fd, whose identity `identity` is. NULL with errno, and a cause.
 */
struct ibv_context *context_open(struct device *device, int fd, const struct cmd_fd *identity);

#endif
