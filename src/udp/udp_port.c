/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp/udp_port.h"

#include <errno.h>
#include <sys/socket.h>

/* Some ten milliseconds of a fast network; the administrator's limit may be lower. */
#define BUFFER_BYTES (8 << 20)

int udp_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

void udp_set_buffer(int fd, int forced, int plain)
{
	if (udp_set(fd, SOL_SOCKET, forced, BUFFER_BYTES))
		udp_set(fd, SOL_SOCKET, plain, BUFFER_BYTES);
}
