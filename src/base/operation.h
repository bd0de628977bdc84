/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operation - what a send request does, for all layers: opcodes of work requests
 * (object/opcode.def), packets (packet/opcode.c) and records (shm/record.h) of requests name it,
 * and both responders execute it (execute/execute.h).
 *
 * The numbers are part of the records between processes of a host (CTL_VERSION). Pure.
 */
#ifndef BASE_OPERATION_H
#define BASE_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

enum operation {
	OPERATION_NONE,
	OPERATION_SEND,
	OPERATION_WRITE,
	OPERATION_READ,
	OPERATION_COMPARE_SWAP,
	OPERATION_FETCH_ADD,
	OPERATION_ATOMIC_WRITE, /* IBA annex A19 */
	OPERATION_FLUSH,	/* likewise */
	OPERATIONS_OF_PEER,	/* the peer executes those above */
	OPERATION_BIND = OPERATIONS_OF_PEER,
	OPERATION_LOCAL_INV,
};

/*
 * What an operation of one packet works with, in host order: the fields of an AtomicETH. FETCH_ADD
 * adds `swap_add`. ATOMIC_WRITE: `swap_add` holds its 8 bytes, in memory order. FLUSH: placement
 * types, selectivity level.
 */
struct operands {
	uint64_t swap_add, compare;
};

static inline bool operation_is_atomic(enum operation operation)
{
	return operation == OPERATION_COMPARE_SWAP || operation == OPERATION_FETCH_ADD;
}

/* An atomic with two operands. */
static inline bool operation_has_compare(enum operation operation)
{
	return operation == OPERATION_COMPARE_SWAP;
}

/* Its message may take several packets of payload. */
static inline bool operation_is_message(enum operation operation)
{
	return operation == OPERATION_SEND || operation == OPERATION_WRITE;
}

/* READs and atomics: the response carries data. */
static inline bool operation_brings_data(enum operation operation)
{
	return operation == OPERATION_READ || operation_is_atomic(operation);
}

/*
 * A response, not an acknowledgement, completes the request. max_rd_atomic limits how many are
 * outstanding.
 */
static inline bool operation_takes_response(enum operation operation)
{
	return operation_brings_data(operation) || operation == OPERATION_ATOMIC_WRITE ||
	       operation == OPERATION_FLUSH;
}

/* The request carries data of the program, which may be inline. */
static inline bool operation_has_payload(enum operation operation)
{
	return operation_is_message(operation) || operation == OPERATION_ATOMIC_WRITE;
}

/* The operand or the result is one word of 8 bytes (CONTRACT 37). */
static inline bool operation_is_of_a_word(enum operation operation)
{
	return operation_is_atomic(operation) || operation == OPERATION_ATOMIC_WRITE;
}

/* The request only changes memory windows and keys of this end. */
static inline bool operation_is_of_this_end(enum operation operation)
{
	return operation >= OPERATIONS_OF_PEER;
}

#endif
