/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migrate world - shared by tests of migration: keys in an arena, a heap, and a thread in the place
 * of the progress thread.
 */
#ifndef TESTS_UNIT_MEMORY_MIGRATE_WORLD_H
#define TESTS_UNIT_MEMORY_MIGRATE_WORLD_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "../base/thread_state.h"
#include "harness.h"
#include "memory/migrate.h"

#define PAGE  4096ul
#define HEAP  (256ul << 20)
#define BYTES (4ul << 20)
#define PLACE (8ul << 20)

extern int heap_fd;
extern struct move_heap heap;
extern void *peer_arena; /* of a process that may publish hazards on our keys */
extern _Atomic unsigned kicks;

/* Called first. Ends the program as skipped where pages cannot move. */
void migrate_world_start(void);

/* Wakes the thread; waits until it has nothing to do, now or later. */
void kick(void);
void wait_until_quiet(void);
/* No time passes for it meanwhile: what waits for a while waits on. */
void stop_clock(void);
void start_clock(void);

/* BYTES or more of words that count up by 31; fails if they do not any more. */
char *make_region(size_t bytes);
bool is_region(const char *region, size_t bytes);
void check_region(const char *region, size_t bytes);

uint32_t make_key(char *addr, size_t bytes, uint32_t flags);
void end_key(uint32_t key);
uint64_t heap_of(uint32_t key);
uint32_t flags_of(uint32_t key);
/* Requests migration as a peer does, and waits until the region has moved or was refused. */
void ask(uint32_t key);
/* The word at this offset of the heap, as a peer sees it. */
uint64_t peek(uint64_t offset);

/* Whether the page is mapped from the heap; waits until it is not. */
bool is_shared(const char *at);
void wait_until_private(const char *at);

/* Of a region of BYTES, at PLACE. */
struct move_range make_range(char *region);

/*
 * Without userfaultfd (memory/hold.h).
 */
/* For a region to migrate. A program whose threads do not stand is asked less. */
#define TURNS_MS 200

/*
 * Calls a verb all the time, until the region has migrated or stays, or for `ms`. A thread that
 * waits for a processor for a second, as on a busy machine, may be given up: then a peer asks
 * again.
 */
bool poll_until_migrated(uint32_t key, unsigned ms);
bool request_and_poll(uint32_t key, unsigned ms);

/* The page is a private one of the heap's file: it left without a hold. */
bool is_private_of_heap(const char *at);

/* The thread sanitizer has one, which is no thread of the program either. */
void add_sanitizer_threads(void);

struct writer {
	_Atomic bool stop;
	uint64_t *words[3]; /* counted up, each by stores alone */
	uint64_t writes;
};

void *keep_writing(void *arg);

#endif
