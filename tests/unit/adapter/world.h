/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * World - replaces the progress thread's environment at link time (--wrap), with counters: a thread
 * can be delayed at any point, and packets can come without end.
 */
#ifndef TESTS_UNIT_ADAPTER_WORLD_H
#define TESTS_UNIT_ADAPTER_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define LEASE_MS    1
#define PATIENCE_MS 5000 /* for events that only a busy machine delays */

struct world {
	struct arena_header header;
	int wake_fd;
	int packets_fd; /* readable: the ports are */

	/* What the progress thread did. */
	_Atomic unsigned link_looks, wire_looks, notice_looks;
	_Atomic unsigned retries;
	_Atomic unsigned listens;	    /* calls of port_table_listen */
	_Atomic bool hears;		    /* the result of the last one */
	_Atomic unsigned taken_alone;	    /* packets of the stream taken in TAKES_ALONE */
	_Atomic bool lent;		    /* a lease, during a stream */
	_Atomic unsigned looks_until_links; /* from the look that wrote the wake eventfd (wakes) */
	_Atomic unsigned searches;	    /* for verbatimd */
	_Atomic uint64_t shortest_pause_ns; /* between two of them */
	_Atomic int longest_search_ms;	    /* its limit */
	_Atomic unsigned steps_in_time;	    /* of pages, while it takes packets alone */
	_Atomic bool searched_awake;	    /* need_wakeup was 0 during one of them */
	_Atomic unsigned searches_at_empty; /* when the last packet was taken */

	/* What the progress thread finds. */
	_Atomic unsigned packets;    /* to be taken */
	_Atomic bool endless;	     /* there is always one more */
	_Atomic uint64_t look_ns;    /* how long such a look takes */
	_Atomic bool migrates;	     /* pages: a step is due each millisecond */
	_Atomic bool links_busy;     /* there is always something on a link */
	_Atomic bool links_are_held; /* another thread has the links' locks */
	_Atomic bool stream;	     /* every third look finds a packet */
	_Atomic bool wakes;	     /* the next look writes the wake eventfd */
	_Atomic bool comes_late;     /* a packet, just before the ports are listened to again */
	_Atomic unsigned
		busy; /* so many looks at ports that do not listen find another thread there */
	_Atomic uint64_t retry_due;
	_Atomic bool daemon_is_lost; /* and none is found: a search takes all its time */
	_Atomic bool ports_are_deaf; /* listening fails, for now */
	/* How long other threads are delayed before and after they set a timer. */
	_Atomic unsigned away_ms;
};

extern struct world world;

/* Group setup: one progress thread for all tests of the program. Teardown: it sleeps. */
int world_start(void **state);
int world_settle(void **state);

/* False: not within PATIENCE_MS. */
bool world_waits_for(bool (*condition)(void));
bool world_is_asleep(void);
bool world_is_empty(void);
void world_arrive(void); /* a packet */
void world_sleep_ms(unsigned ms);

#define TEST(f) cmocka_unit_test_teardown(f, world_settle)

#endif
