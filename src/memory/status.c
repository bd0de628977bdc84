/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/status.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "memory/maps.h"

/* "Groups:" is in front of the numbers, and may be long. Then /proc does not tell. */
#define STATUS_BYTES 8192

static void read_status(char text[STATUS_BYTES + 1])
{
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, STATUS_BYTES);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
}

/* "VmPin:\t       0 kB\n" */
bool status_number(const char *name, uint64_t *number)
{
	size_t length = strlen(name);
	char text[STATUS_BYTES + 1];
	const char *line = text;

	read_status(text);
	while (strncmp(line, name, length) || line[length] != ':') {
		line = strchr(line, '\n');
		if (!line)
			return false;
		line++;
	}
	line += length + 1;
	line += strspn(line, "\t ");
	*number = maps_number(&line, 10);
	return *line == '\n' || *line == ' ';
}
