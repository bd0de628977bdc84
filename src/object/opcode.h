/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opcode - the properties of work-request opcodes: the rows of opcode.def, and predicates on them.
 *
 * Pure; any thread.
 */
#ifndef OBJECT_OPCODE_H
#define OBJECT_OPCODE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* How a request is executed. */
enum operation {
	OPERATION_SEND,
	OPERATION_WRITE,
	OPERATION_READ,
	OPERATION_COMPARE_SWAP,
	OPERATION_FETCH_ADD,
	OPERATION_ATOMIC_WRITE,
	OPERATION_FLUSH,
	OPERATION_BIND,	     /* at this end only */
	OPERATION_LOCAL_INV, /* likewise */
};

struct opcode {
	const char *name; /* NULL: there is no such opcode */
	uint64_t send_op; /* enum ibv_qp_create_send_ops_flags */
	uint8_t completion;
	uint8_t services;
	uint8_t operation;
	bool has_imm, has_inv;
};

#define OPCODES 16

extern const struct opcode opcodes[OPCODES]; /* by enum ibv_wr_opcode */

/* The opcode's row. NULL: it is unknown, or a QP of this type does not have it. */
const struct opcode *opcode_find(enum ibv_wr_opcode opcode, enum ibv_qp_type type);

/* The opcodes of a QP of this type, as enum ibv_qp_create_send_ops_flags. */
uint64_t opcode_send_ops(enum ibv_qp_type type);

/* The operation of a posted request, whose opcode was checked. */
static inline enum operation opcode_operation(uint8_t opcode)
{
	return (enum operation)opcodes[opcode].operation;
}

static inline bool operation_is_atomic(enum operation operation)
{
	return operation == OPERATION_COMPARE_SWAP || operation == OPERATION_FETCH_ADD;
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
	return operation == OPERATION_SEND || operation == OPERATION_WRITE ||
	       operation == OPERATION_ATOMIC_WRITE;
}

/* The operand or the result is one word of 8 bytes (CONTRACT 37). */
static inline bool operation_is_of_a_word(enum operation operation)
{
	return operation_is_atomic(operation) || operation == OPERATION_ATOMIC_WRITE;
}

/* The request only changes memory windows and keys of this end. */
static inline bool operation_is_of_this_end(enum operation operation)
{
	return operation == OPERATION_BIND || operation == OPERATION_LOCAL_INV;
}

#endif
