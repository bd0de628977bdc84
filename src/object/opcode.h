/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opcode - the properties of work-request opcodes: the rows of opcode.def.
 *
 * Pure; any thread.
 */
#ifndef OBJECT_OPCODE_H
#define OBJECT_OPCODE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/operation.h"

struct opcode {
	const char *name; /* NULL: there is no such opcode */
	uint64_t send_op; /* enum ibv_qp_create_send_ops_flags */
	uint8_t completion;
	uint8_t services;
	uint8_t operation;
	bool has_imm, has_inv;
};

#define OPCODES 32 /* more than the numbers in use */

extern const struct opcode opcodes[OPCODES]; /* by enum ibv_wr_opcode */

/* Beside enum ibv_qp_type: an RC QP of an RNIC, which has fewer opcodes. */
#define OPCODE_QPT_RNIC 0x80

/*
 * The opcode's row. NULL: it is unknown, or a QP of this type (enum ibv_qp_type, or
 * OPCODE_QPT_RNIC) does not have it.
 */
const struct opcode *opcode_find(enum ibv_wr_opcode opcode, unsigned type);

/* The opcodes of a QP of this type, as enum ibv_qp_create_send_ops_flags. */
uint64_t opcode_send_ops(unsigned type);

/* The operation of a posted request, whose opcode was checked. */
static inline enum operation opcode_operation(uint8_t opcode)
{
	return (enum operation)opcodes[opcode].operation;
}

#endif
