/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plan - the steps of every process towards every other, and their bytes; all from one seed.
 *
 * In:  seed, sender, receiver, number of the step.
 * Out: the step. The receiver computes the same step as the sender, and so knows the expected
 *      message.
 *
 * Pure functions: no state, no clock.
 */
#ifndef STRESS_PLAN_H
#define STRESS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
	STEP_SEND,
	STEP_SEND_IMM,
	STEP_WRITE, /* a WRITE, and a small SEND that announces it */
	STEP_WRITE_IMM,
	STEP_READ,
	STEP_ADD_OWN,	 /* on the word that only this pair uses: the value before is known */
	STEP_ADD_SHARED, /* on a word that all use: the sum is known at the end */
	STEP_SWAP_OWN,
	STEP_SWAP_SHARED,
	STEP_KINDS,
};

#define SEND_BYTES_MAX	(256u << 10)
#define WRITE_SLOTS	4u /* of each pair at the target, used in turn */
#define WRITE_GUARD	64u
#define WRITE_BYTES_MAX (1u << 20) /* in the last slot; SEND_BYTES_MAX in the others */
#define SOURCE_BYTES	(2u << 20) /* source of READs */
#define TELL_BYTES	24u
#define STEP_SGES_MAX	4u

struct step {
	enum kind kind;
	uint32_t size;
	uint32_t offset; /* READ: in the source */
	uint32_t imm;
	uint64_t key;	/* of the pattern */
	uint64_t value; /* of atomics: what is added */
	unsigned int sges;
	bool signalled, inlined, fenced, solicited;
	bool mismatch; /* SWAP_OWN: compare with a wrong value */
};

struct step plan_step(uint64_t seed, unsigned int from, unsigned int to, uint32_t number);

/* WRITE number `write` of a pair: its slot, where that begins, and how much of `size` fits. */
uint32_t plan_slot_start(uint32_t write);
uint32_t plan_slot_fit(uint32_t write, uint32_t size);
uint32_t plan_slots_bytes(void);

static inline bool step_consumes_receive(const struct step *step)
{
	return step->kind <= STEP_WRITE_IMM;
}

/* A generator: next value from a state. */
uint64_t plan_random(uint64_t *state);
uint64_t plan_mix(uint64_t value);

/* Bytes of the pattern `key` from index `start` on. check: the first wrong index, or -1. */
void pattern_fill(void *to, size_t length, uint64_t key, uint64_t start);
int64_t pattern_check(const void *from, size_t length, uint64_t key, uint64_t start);

#endif
