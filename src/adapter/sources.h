/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources - the table of the progress thread's sources of work: which descriptor tells of work, how
 * a source is polled, when it is due by the clock, how a fork resets it.
 *
 * In:  what the rows of sources.c name.
 * Out: the descriptors that the progress thread watches, the functions that it polls, its deadline.
 *
 * Two of them are fast: links and ports. The progress thread and the threads that poll call
 * hot_links_progress_all and ports_progress directly. All others have a poll function that only the
 * progress thread calls, between its sleeps.
 *
 * To add a source, add a row in sources.c.
 */
#ifndef ADAPTER_SOURCES_H
#define ADAPTER_SOURCES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define SOURCES_NEVER UINT64_MAX

struct source {
	const char *name;
	void (*start)(void); /* makes what the source needs, before `fd`; NULL: nothing */
	int (*fd)(void);     /* readable when the source has work; NULL, or -1: there is none */
	uint32_t events;     /* for epoll */
	/* Makes the descriptor unreadable; NULL: `poll` does. */
	void (*drain)(int fd);
	/*
	 * The descriptor tells of packets or their timers: the progress thread serves them and
	 * sleeps on.
	 */
	bool is_packets;
	/* Progress thread: does a bounded amount of work. True: there is more, now. */
	bool (*poll)(void);
	/* When to poll although no descriptor tells, CLOCK_MONOTONIC; or SOURCES_NEVER. */
	uint64_t (*deadline_ns)(void);
	/* In the child of a fork: drops what is the parent's. Allocates and frees nothing. */
	void (*reset_after_fork)(void);
};

/* Starts all sources, and adds their descriptors to `epoll`. */
void sources_watch(int epoll);

/* epoll reported this descriptor. */
void sources_on_ready(int fd);

/* All of the events tell of packets or their timers. */
bool sources_are_packets(const struct epoll_event *events, int count);

/* Polls all but links and ports. True: there is more, now. */
bool sources_poll(void);

/* The first deadline of all. */
uint64_t sources_deadline_ns(void);

void sources_reset_after_fork(void);

#endif
