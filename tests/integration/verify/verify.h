/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verify - a verbs program that checks what it sends and receives.
 *
 * In:  a command and options; both ends get the same ones, and one of them a host, too.
 * Out: on standard output, what happened; the exit status is 0 if all was correct.
 *
 * It uses nothing but the public API, like any program. One thread, where a command says no more;
 * every error ends the process with a sentence.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZES_MAX 32

enum operation {
	OP_SEND,
	OP_SEND_IMM,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_CAS,
	OP_FAA,
	OP_ATOMIC_WRITE,
	OP_WRITE_FLUSH, /* a WRITE and a FLUSH of what it wrote; by ibv_wr_*() only */
	OP_COUNT,
};

/* How a blocked program sleeps. */
enum sleep_how {
	SLEEP_GET_EVENT, /* ibv_get_cq_event */
	SLEEP_POLL,	 /* poll() of the channel's descriptor */
};

/* What the listening end does while it is measured. */
enum target_does {
	TARGET_POLLS,  /* its CQ */
	TARGET_SLEEPS, /* outside of verbs */
	TARGET_SPINS,  /* on memory, and polls its CQ now and then */
};

struct options {
	const char *host;   /* NULL: this end listens */
	const char *listen; /* the address to listen on */
	const char *group;  /* as a GID */
	int port;	    /* TCP, where the ends meet */
	int gid_index;
	enum ibv_qp_type service;
	enum operation operation;
	size_t sizes[SIZES_MAX];
	int size_count;
	unsigned count; /* messages of each size */
	unsigned depth; /* of them outstanding at a time, at most */
	int pieces;	/* SGEs of a message */
	uint64_t seed;
	bool use_events; /* sleep for completions instead of polling */
	bool use_inline;
	bool use_wr_api; /* ibv_wr_*() instead of ibv_post_send() */
	enum sleep_how sleep_how;
	enum target_does target;
	bool polling; /* all threads; of `migrate`, the target before it makes one */
	bool sleeper; /* a thread that sleeps outside of verbs */
	unsigned hold_ms;
};

/* Prints the sentence and exits with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

/* Of CLOCK_MONOTONIC. */
int64_t now_ns(void);

bool op_has_receive(enum operation operation);
bool op_is_atomic(enum operation operation);

/* Requests, and completions, of one message. */
unsigned op_requests(enum operation operation);

/* The commands; each returns the exit status. */
int run_address(const struct options *options);
int run_migrate(const struct options *options);
int run_badkey(const struct options *options);
int run_block(const struct options *options);
int run_data(const struct options *options);
int run_group(const struct options *options);
int run_hammer(const struct options *options);
int run_guard(const struct options *options);
int run_latency(const struct options *options);
int run_passive(const struct options *options);
int run_stream(const struct options *options);

#endif
