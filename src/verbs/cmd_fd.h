/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cmd fd - ibv_context.cmd_fd: a memfd that identifies a context.
 *
 * A program can duplicate the descriptor and send it to another process. ibv_import_device finds
 * the device by it, and ibv_import_pd the PD. Device memory lies in the file (object/dm.h), so that
 * another process can map it.
 *
 *   byte    contents
 *   0       magic; random numbers of the context and of its process; the process's slot; the device
 *   128     uint32 for each handle of a PD: the PD's number, or 0
 *   262272  uint32 for each handle of device memory: its length in bytes, or 0
 *   2 MiB   device memory (DM_FILE_START)
 *
 * The file is sparse: it has its greatest length from the beginning, and cannot shrink.
 */
#ifndef VERBS_CMD_FD_H
#define VERBS_CMD_FD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct cmd_fd {
	uint64_t number;
	uint64_t process;
	uint64_t cookie; /* of the process's arena; the slot may have another owner by now */
	uint32_t slot;
	char device[IBV_SYSFS_NAME_MAX];
};

/* Creates one for a new context of the process in that slot. The descriptor, or -errno. */
int cmd_fd_create(const char *device, uint32_t slot, uint64_t cookie, struct cmd_fd *out);

/* Reads the identity. 0, or -EINVAL: `fd` is no such file. */
int cmd_fd_read(int fd, struct cmd_fd *out);

/* Whether this process created it, so that its handles are those of this process's tables. */
bool cmd_fd_is_ours(const struct cmd_fd *cmd_fd);

/* Writes and reads the number of the PD with this handle; 0: there is none. */
void cmd_fd_show_pd(int fd, uint32_t handle, uint32_t number);
uint32_t cmd_fd_shows_pd(int fd, uint32_t handle);

/* Writes and reads the bytes of the device memory with this handle; 0: there is none. */
void cmd_fd_show_dm(int fd, uint32_t handle, uint32_t length);
uint32_t cmd_fd_shows_dm(int fd, uint32_t handle);

#endif
