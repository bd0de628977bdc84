/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

void udp_end_fail(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

int64_t udp_end_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

struct sockaddr_in udp_end_address(const char *address, const char *port)
{
	struct sockaddr_in out = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, address, &out.sin_addr) != 1) {
		errno = EINVAL;
		udp_end_fail(address);
	}
	return out;
}

int udp_end_open(const char *port, const char *address, int flags)
{
	struct sockaddr_in ours = udp_end_address(address, port);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | flags, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&ours, sizeof(ours)))
		udp_end_fail(address);
	return fd;
}

struct icrc_path udp_end_path(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	struct icrc_path path = {
		.source = { [10] = 0xff, [11] = 0xff },
		.destination = { [10] = 0xff, [11] = 0xff },
		.source_port = ntohs(from->sin_port),
		.destination_port = ntohs(to->sin_port),
	};

	memcpy(path.source + 12, &from->sin_addr, 4);
	memcpy(path.destination + 12, &to->sin_addr, 4);
	return path;
}
