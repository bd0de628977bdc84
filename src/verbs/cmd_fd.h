/*
 * Cmd fd - what ibv_context.cmd_fd is: a memfd that says whose context it stands for.
 *
 * It can be duplicated, told from others, and sent to another process; ibv_import_device finds the
 * device again by it, and ibv_import_pd what of its context may be imported.
 *
 *   0    magic; the context's number and its process's, random, so that no two are alike; the device
 *   128  uint32 for each handle of a PD: 1 while it is there
 */
#ifndef VERBS_CMD_FD_H
#define VERBS_CMD_FD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct cmd_fd {
	uint64_t number;
	uint64_t process;
	char device[IBV_SYSFS_NAME_MAX];
};

/* A new one, with a number of its own: the descriptor, or -errno. */
int cmd_fd_create(const char *device, struct cmd_fd *out);

/* Whose it is: 0, or -EINVAL if it is something else. */
int cmd_fd_read(int fd, struct cmd_fd *out);

/* This process made it: its handles are those of our own tables. */
bool cmd_fd_is_ours(const struct cmd_fd *cmd_fd);

void cmd_fd_show_pd(int fd, uint32_t handle, bool there);
bool cmd_fd_shows_pd(int fd, uint32_t handle);

#endif
