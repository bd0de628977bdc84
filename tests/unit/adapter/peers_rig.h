/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rig of the tests of adapter/peers.c: one peer, whose ring the test writes. All other modules are
 * replaced at link time (--wrap).
 */
#ifndef TESTS_PEERS_RIG_H
#define TESTS_PEERS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "adapter/hot_links.h"
#include "adapter/peers.h"
#include "shm/xcopy.h"

#define OWN_SLOT  3
#define PEER_SLOT 5

extern struct arena_header *own, *peer;
extern int memory_fd; /* of the link, which verbatimd hands out */
extern struct ring_producer tx;
extern pid_t peer_pid;
extern pid_t told_pid; /* as verbatimd sees it, perhaps in another PID namespace; 0: the same */
extern bool is_known;  /* verbatimd does not know of the peer's death yet */
extern bool is_busy;   /* another thread waits for an answer of verbatimd */
extern void (*while_asked)(void);
extern void (*while_made)(void); /* a link, which is not in the table yet */
extern enum xcopy xcopy;	 /* XCOPY_VM: the peer's PID is valid in this PID namespace */
extern unsigned held;		 /* so many looks find another thread at the link */
extern unsigned carried_out, closed, broken, questions, memory_causes;
extern unsigned told; /* calls of shm_retry_on_peers */

int setup(void **state);
int teardown(void **state);

/* As verbatimd makes them. */
int make_memory(const char *name, off_t bytes);
/* verbatimd's answer, of the peer as it is now. */
int __wrap_ctl_peer(struct ctl_client *c, unsigned slot, struct ctl_peer_info *out);

/* The peer sends something. */
void leave_one(void);
void die(void);
/* The progress thread reads of the death. */
void hear_of_death(void);
void hear_of_link(void);
void see_it_die(void);
struct link *find(void);

#endif
