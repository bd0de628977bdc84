/* SPDX-License-Identifier: BSD-2-Clause */
/* System daemon - starts, calls and stops verbatimd --system, and makes workers other users. */
#ifndef SYSTEM_DAEMON_H
#define SYSTEM_DAEMON_H

#include <sys/types.h>

/* Skips the test unless it runs as root. */
void need_root(void);

/* In a worker: changes the user. The worker still dies with the test. */
void become_user(uid_t uid);

/* Returns once the daemon accepts connections. The test is its parent. */
pid_t start_system_daemon(void);

/* A connection to the daemon, before any message. */
int call_system(void);

/* `signal` is SIGTERM, after which the daemon has to exit with 0, or SIGKILL. */
void stop_system_daemon(pid_t daemon, int signal);

#endif
