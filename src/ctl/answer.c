/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/deadline.h"

#define LOOK_MS 100

/* SO_PEERCRED names the process that called listen(), which is the daemon. */
static pid_t peer_pid(int sock)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ? 0 : peer.pid;
}

/* State R in /proc/PID/stat. It stands after the name, which may contain any character. */
static bool is_runnable(pid_t pid)
{
	char path[64], text[512];
	const char *name_end;
	ssize_t n;
	int fd;

	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	name_end = strrchr(text, ')');
	return name_end && !strncmp(name_end, ") R", 3);
}

int answer_wait(int sock, int64_t usual_ns, int64_t latest_ns, struct fdmsg *out)
{
	int64_t until_ns = usual_ns < latest_ns ? usual_ns : latest_ns;

	for (;;) {
		int rc = fdmsg_wait(sock, until_ns, out);

		if (rc != -ETIMEDOUT || !deadline_left_ms(latest_ns) ||
		    !is_runnable(peer_pid(sock)))
			return rc;
		until_ns = deadline_in_ms(LOOK_MS);
		if (until_ns > latest_ns)
			until_ns = latest_ns;
	}
}
