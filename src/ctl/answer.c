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

#define LOOK_MS	     100
#define STATUS_BYTES 512

/* SO_PEERCRED names the process that called listen(). */
static pid_t peer_pid(int sock)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ? 0 : peer.pid;
}

/*
 * Of the process at the other end, from /proc/PID/stat: "PID (NAME) STATE ...", where the name may
 * contain any character. False: unknown.
 */
static bool read_status(int sock, char text[STATUS_BYTES], const char **name, const char **state)
{
	pid_t pid = peer_pid(sock);
	char path[64], *end;
	ssize_t n;
	int fd;

	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, STATUS_BYTES - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	*name = strchr(text, '(');
	end = strrchr(text, ')');
	if (!*name || !end)
		return false;
	++*name;
	*end = '\0';
	*state = end + 1 + strspn(end + 1, " ");
	return true;
}

static bool is_runnable(int sock)
{
	char text[STATUS_BYTES];
	const char *name, *state;

	return read_status(sock, text, &name, &state) && *state == 'R';
}

bool answer_is_by_manager(int sock)
{
	char text[STATUS_BYTES];
	const char *name, *state;

	return read_status(sock, text, &name, &state) && strcmp(name, "verbatimd");
}

int answer_wait(int sock, int64_t usual_ns, int64_t latest_ns, struct fdmsg *out)
{
	int64_t until_ns = usual_ns < latest_ns ? usual_ns : latest_ns;

	for (;;) {
		int rc = fdmsg_wait(sock, until_ns, out);

		if (rc != -ETIMEDOUT || !deadline_left_ms(latest_ns) || !is_runnable(sock))
			return rc;
		until_ns = deadline_in_ms(LOOK_MS);
		if (until_ns > latest_ns)
			until_ns = latest_ns;
	}
}
