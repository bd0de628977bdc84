/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/watch.h"

#include <unistd.h>

#include "base/netlink.h"

static int fd = -1;

void watch_start(void)
{
	fd = netlink_watch();
}

int watch_fd(void)
{
	return fd;
}

bool watch_take(void)
{
	return fd >= 0 && netlink_drain(fd);
}

void watch_reset_after_fork(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}
