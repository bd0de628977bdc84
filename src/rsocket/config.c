/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rsocket/protocol.h"

#define FOLDER "/etc/rdma/rsocket" /* rsocket(7) */

static struct config config = {
	.receive_bytes = 128 << 10,
	.send_bytes = 128 << 10,
	.sq_size = 384,
	.rq_size = 384,
	.inline_bytes = 64,
	.mappings = 0,
	.poll_us = 50,
	.wake_ms = 5000,
};

/* A file whose number is not within min..max is ignored. */
static const struct {
	const char *name;
	size_t offset;
	uint32_t min, max;
} files[] = {
	{ "mem_default", offsetof(struct config, receive_bytes), 1, BUFFER_MAX },
	{ "wmem_default", offsetof(struct config, send_bytes), 1, BUFFER_MAX },
	{ "sqsize_default", offsetof(struct config, sq_size), SIZE_MIN, SIZE_MAX_QUEUE },
	{ "rqsize_default", offsetof(struct config, rq_size), SIZE_MIN, SIZE_MAX_QUEUE },
	{ "inline_default", offsetof(struct config, inline_bytes), 0, 4096 },
	{ "iomap_size", offsetof(struct config, mappings), 0, 0x7f00 },
	{ "polling_time", offsetof(struct config, poll_us), 0, 1000000000 },
	{ "wake_up_interval", offsetof(struct config, wake_ms), 1, 1000000 },
};

/* Without stdio, because a preloaded library may interpose its calls. 0 or -errno. */
static int read_number(const char *name, unsigned long *number)
{
	char path[128], text[32], *end;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), FOLDER "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return -EINVAL;
	text[length] = 0;
	errno = 0;
	*number = strtoul(text, &end, 0);
	return end == text || errno ? -EINVAL : 0;
}

uint32_t config_buffer(uint64_t bytes)
{
	if (bytes < BUFFER_MIN)
		return BUFFER_MIN;
	if (bytes > BUFFER_MAX)
		return BUFFER_MAX;
	return (uint32_t)(bytes + 1) & ~1u;
}

static void init(void)
{
	unsigned long number = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!read_number(files[i].name, &number) && number >= files[i].min &&
		    number <= files[i].max)
			*(uint32_t *)((char *)&config + files[i].offset) = (uint32_t)number;
	config.receive_bytes = config_buffer(config.receive_bytes);
	config.send_bytes = config_buffer(config.send_bytes);
	config.mappings = protocol_unscale(protocol_scale(config.mappings));
}

const struct config *config_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int error = errno;

	pthread_once(&once, init);
	errno = error;
	return &config;
}
