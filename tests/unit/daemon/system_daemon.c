/* SPDX-License-Identifier: BSD-2-Clause */
#include "system_daemon.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/dial.h"
#include "harness.h"

void become_user(uid_t uid)
{
	CHECK(!setuid(uid));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void need_root(void)
{
	if (geteuid() != 0) {
		print_message("skipped: needs root to be two users\n");
		skip();
	}
}

pid_t start_system_daemon(void)
{
	pid_t daemon = fork();

	if (!daemon) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(getenv("VERBATIM_DAEMON"), "verbatimd", "--system", "--foreground", NULL);
		_exit(127);
	}
	for (int64_t end = now_ms() + PATIENCE_MS; now_ms() < end; usleep(1000)) {
		enum dial_which reached;
		char why[256];
		int sock;

		if (dial_running(DIAL_SYSTEM, &sock, &reached, why, sizeof(why)))
			continue;
		close(sock);
		break;
	}
	return daemon;
}

int call_system(void)
{
	enum dial_which reached;
	char why[256];
	int sock;

	CHECK(!dial_running(DIAL_SYSTEM, &sock, &reached, why, sizeof(why)));
	return sock;
}

void stop_system_daemon(pid_t daemon, int signal)
{
	int status;

	CHECK(!kill(daemon, signal));
	CHECK(wait_for_end(daemon, PATIENCE_MS));
	CHECK(waitpid(daemon, &status, 0) == daemon);
	CHECK(signal != SIGTERM || status == 0);
}
