/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counter - how often packets came that no connection could use, and what happened to the others.
 *
 * In:  events, by any thread. Out: numbers in this process's arena, for `verbatim show`, and by
 *      device for hw_counters in sysfs.
 *
 * Any host may send bad packets, at any rate: they are counted, not reported one by one. Relaxed: a
 * reader sees each count some time. No event here is one of each packet of a good connection: those
 * are in struct arena_traffic.
 */
#ifndef BASE_COUNTER_H
#define BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

enum counter {
#define X(name, text, what) COUNTER_##name,
#include "base/counter.def"
#undef X
	COUNTERS
};

/* Events are counted in this arena from now on, beginning with its numbers; NULL: in none. */
void counter_init(void *arena);
void counter_reset_after_fork(void);

/* An event that belongs to no device. */
void counter_add(enum counter counter);

/* `device` is an index of struct arena_device: context->device_index. */
void counter_add_of_device(uint32_t device, enum counter counter);
/* So many times, at the cost of one. */
void counter_add_many_of_device(uint32_t device, enum counter counter, uint32_t times);

/* Those of all devices and of none. */
uint64_t counter_read(enum counter counter);

/* The same in an arena of any process: arena_counters. */
uint64_t counter_sum(const _Atomic uint64_t *all, enum counter counter);

/* "naks_sent", and what it counts in words. */
const char *counter_name(enum counter counter);
const char *counter_what(enum counter counter);

#endif
