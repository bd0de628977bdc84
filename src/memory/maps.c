/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define BUFFER_BYTES 4096

uint64_t maps_number(const char **at, unsigned base)
{
	uint64_t value = 0;

	for (;; (*at)++) {
		char c = **at;
		unsigned digit = c >= '0' && c <= '9'	? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
							: base;

		if (digit >= base)
			return value;
		value = value * base + digit;
	}
}

static bool skip(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

/* "start-end rwxp offset major:minor inode   name" */
static bool parse(const char *line, struct mapping *out)
{
	unsigned major, minor;
	size_t i;

	*out = (struct mapping){ 0 };
	out->start = maps_number(&line, 16);
	if (!skip(&line, '-'))
		return false;
	out->end = maps_number(&line, 16);
	if (!skip(&line, ' ') || strnlen(line, 5) < 5)
		return false;
	memcpy(out->rights, line, 4);
	line += 4;
	skip(&line, ' ');
	out->offset = maps_number(&line, 16);
	skip(&line, ' ');
	major = (unsigned)maps_number(&line, 16);
	skip(&line, ':');
	minor = (unsigned)maps_number(&line, 16);
	skip(&line, ' ');
	out->device = makedev(major, minor);
	out->inode = (ino_t)maps_number(&line, 10);
	while (skip(&line, ' '))
		;
	for (i = 0; i < sizeof(out->name) - 1 && line[i]; i++)
		out->name[i] = line[i];
	return true;
}

int maps_open_error(int error)
{
	if (error == EMFILE || error == ENFILE || error == ENOMEM)
		return -EAGAIN;
	return error == EPERM ? -EACCES
			      : -error; /* -EPERM is said of guards alone (memory/move.h) */
}

int maps_open(void)
{
	int fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return maps_open_error(errno);
	return fd;
}

int maps_visit_file(int fd, bool (*visit)(const struct mapping *mapping, void *arg), void *arg)
{
	char buffer[BUFFER_BYTES + 1];
	size_t filled = 0;
	bool tail = false; /* in the rest of a line that was longer than the buffer */
	struct mapping mapping;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buffer + filled, BUFFER_BYTES - filled, at)) > 0) {
		char *line = buffer, *end;

		at += n;
		filled += (size_t)n;
		while ((end = memchr(line, '\n', (size_t)(buffer + filled - line)))) {
			*end = 0;
			if (!tail && parse(line, &mapping) && !visit(&mapping, arg))
				return 0;
			tail = false;
			line = end + 1;
		}
		filled -= (size_t)(line - buffer);
		memmove(buffer, line, filled);
		if (filled < BUFFER_BYTES)
			continue;
		buffer[filled] = 0;
		if (!tail && parse(buffer, &mapping) && !visit(&mapping, arg))
			return 0;
		tail = true;
		filled = 0;
	}
	return n < 0 ? -EIO : 0;
}

int maps_visit(bool (*visit)(const struct mapping *mapping, void *arg), void *arg)
{
	int fd = maps_open(), error;

	if (fd < 0)
		return fd;
	error = maps_visit_file(fd, visit, arg);
	close(fd);
	return error;
}

/* "Groups:" is in front of the numbers, and may be long. Then /proc does not tell. */
#define STATUS_BYTES 8192

static int read_status(char text[STATUS_BYTES + 1])
{
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return maps_open_error(errno);
	n = read(fd, text, STATUS_BYTES);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return 0;
}

/* "VmPin:\t       0 kB\n" */
int status_number(const char *name, uint64_t *number)
{
	size_t length = strlen(name);
	char text[STATUS_BYTES + 1];
	const char *line = text;
	int error = read_status(text);

	if (error)
		return error;
	while (strncmp(line, name, length) || line[length] != ':') {
		line = strchr(line, '\n');
		if (!line)
			return -EIO;
		line++;
	}
	line += length + 1;
	line += strspn(line, "\t ");
	*number = maps_number(&line, 10);
	return *line == '\n' || *line == ' ' ? 0 : -EIO;
}
