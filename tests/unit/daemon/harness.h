/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Harness - a daemon for each test, and processes that use it.
 *
 * In:  VERBATIM_DAEMON, the daemon under test.
 * Out: a namespace that no user's daemon has; worker processes that end with the test.
 *
 * CHECK may be used in workers too: there it ends the worker with status 1.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "ctl/client.h"
#include "ctl/sockname.h"

#define CHECK(ok) harness_check((ok), #ok, __FILE__, __LINE__)

/* Long enough for a loaded machine; the waits end as soon as their condition holds. */
#define PATIENCE_MS 10000

struct worker {
	pid_t pid;
	int fd; /* to the other one: numbers of 64 bits */
};

void harness_check(bool ok, const char *text, const char *file, int line);

/* For cmocka: a fresh namespace and a short linger time; and the end of the daemon, if it lives. */
int harness_setup(void **state);
int harness_teardown(void **state);

/* Descriptors for HELLO. */
int make_arena(void);
int make_wake(void);

/* Connects, with an arena and a wake descriptor that belong to it alone. */
struct ctl_client *join(void);

/*
 * Makes the port of an address whose last process has just ended, as far as the daemon of `next`
 * knows. Returns that process's socket, which is still open.
 */
int leave_socket(struct ctl_client *next, const uint8_t gid[CTL_GID_BYTES]);

/* Which slots are members: bit s % 64 of word s / 64. 0, -ENOTCONN, -ETIMEDOUT. */
int get_members(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES],
		uint64_t slots[CTL_BITMAP_WORDS]);

/* The next notice, which has to be of this kind. */
void await_notice(struct ctl_client *c, enum ctl_notice_kind kind, struct ctl_notice *out);
bool has_no_notice(struct ctl_client *c);
void close_peer(struct ctl_peer_info *peer);

/* Runs body in a child, which then exits with 0. fd is connected with the test. */
void worker_start(struct worker *w, void (*body)(int fd));
void worker_kill(struct worker *w); /* SIGKILL, and reaped */
void worker_end(struct worker *w);  /* waits; it has to exit with 0 */
void say(int fd, uint64_t number);
/* Within PATIENCE_MS, or so many. */
uint64_t hear_within(int fd, int ms);
uint64_t hear(int fd);

/* The daemon of this namespace; -1 if none runs. */
pid_t daemon_pid(void);
/*
 * Several may be started at once; one of them serves, and the others end. Waits for that: whoever
 * kills the one that serves may else find that another has taken its place.
 */
void wait_for_the_last_daemon(void);
bool wait_for_end(pid_t pid, int ms); /* of any process */
unsigned count_fds(pid_t pid);
/*
 * Waits until the process has no more than so many descriptors: threads of verbatimd close those of
 * its clients.
 */
bool comes_down_to(pid_t pid, unsigned fds);
int64_t now_ms(void);
/* Of all threads of the process, since it began. */
int64_t processor_ms(pid_t pid);

/* A raw connection to the daemon; it must run. */
int raw_connect(void);
/* Whether the daemon hangs up within PATIENCE_MS; drops its messages before that. */
bool is_cut_off(int sock);

#endif
