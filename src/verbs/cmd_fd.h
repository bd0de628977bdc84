/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cmd fd - what ibv_context.cmd_fd is: a memfd that says whose context it stands for.
 *
 * It can be duplicated, told from others, and sent to another process; ibv_import_device finds the
 * device again by it, ibv_import_pd what of its context may be imported, and device memory lies in it
 * (object/dm.h), so that whoever has the descriptor can map it.
 *
 *   0       magic; the context's number and its process's, random, so that no two are alike; where that
 *           process is found, and the device
 *   128     uint32 for each handle of a PD: its number while it is there, else 0
 *   262272  uint32 for each handle of device memory: its length while it is there, else 0
 *   2 MiB   device memory (DM_FILE_START)
 *
 * It is as long as all of that can be, and takes memory for what is used. It cannot be made shorter.
 */
#ifndef VERBS_CMD_FD_H
#define VERBS_CMD_FD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct cmd_fd {
	uint64_t number;
	uint64_t process;
	uint64_t cookie; /* of its arena: that of its slot may be another's by now */
	uint32_t slot;
	char device[IBV_SYSFS_NAME_MAX];
};

/* A new one, with a number of its own, of the process in that slot: the descriptor, or -errno. */
int cmd_fd_create(const char *device, uint32_t slot, uint64_t cookie, struct cmd_fd *out);

/* Whose it is: 0, or -EINVAL if it is something else. */
int cmd_fd_read(int fd, struct cmd_fd *out);

/* This process made it: its handles are those of our own tables. */
bool cmd_fd_is_ours(const struct cmd_fd *cmd_fd);

/* The PD with this number; 0: there is none any more, or never was. */
void cmd_fd_show_pd(int fd, uint32_t handle, uint32_t number);
uint32_t cmd_fd_shows_pd(int fd, uint32_t handle);

/* Device memory of this length; 0: there is none any more, or never was. */
void cmd_fd_show_dm(int fd, uint32_t handle, uint32_t length);
uint32_t cmd_fd_shows_dm(int fd, uint32_t handle);

#endif
