/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends - the two sides of a connection, wherever each of them lives.
 *
 * In:  functions to run at an end, with their arguments as plain data.
 * Out: the same arguments, as the function left them.
 *
 * End `a` lives in the test's own process. End `b` lives there too, or in a child that was forked
 * from the same program before any device was opened: a pointer to a function is then good at both
 * ends, and the driver is no more than "run this function on these bytes". A test's body is thus
 * written once, for all arrangements (runner.h). What can be run is in side.h; a test may bring
 * functions of its own.
 *
 * Functions that run at an end use FAIL and REQUIRE for conditions that the test cannot do without.
 */
#ifndef CONTRACT_ENDS_H
#define CONTRACT_ENDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "runner.h"

#define QPS_MAX	     8
#define ARGUMENT_MAX 49152

struct side; /* side.h: the objects of one end */
typedef void side_fn(struct side *side, void *argument);

struct end {
	const char *name;
	struct side *side; /* NULL: in another process */
	int fd;		   /* to that process, or -1 */
	pid_t pid;
	pthread_t thread; /* of end_start, if the end is here */
	/* for the other end; filled by pair_make */
	uint64_t addr;
	uint32_t lkey, rkey;
	uint32_t qpn[QPS_MAX];
	union ibv_gid gid;
	uint16_t lid;
	enum ibv_mtu mtu;
	/* of end_start */
	side_fn *started;
	void *argument;
	size_t size;
};

struct pair {
	enum arrangement arrangement;
	struct end a, b;
};

/* Forks b's process if the arrangement asks for it; opens nothing. */
void pair_init(struct pair *pair, enum arrangement arrangement);
void pair_fini(struct pair *pair);

/* Runs `fn` where the end lives and waits for it. */
void end_run(struct end *end, side_fn *fn, void *argument, size_t size);

/* The same in two steps; one at a time for each end. The argument must stay until end_finish. */
void end_start(struct end *end, side_fn *fn, void *argument, size_t size);
void end_finish(struct end *end);

/*
 * Goes on in another thread of the end's process, and ends the first one, which is a zombie when
 * the call returns. Only where the end has a process of its own; once.
 */
void end_leave_first_thread(struct end *end);

/* Kills the end's process and waits until it is gone. Only where it has one of its own. */
void end_kill(struct end *end, int signal);

#define RUN(end, fn, argument)	 end_run(end, fn, argument, sizeof(*(argument)))
#define START(end, fn, argument) end_start(end, fn, argument, sizeof(*(argument)))

#endif
