/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/opcode.h"

#include "base/compat.h"

enum {
	ON_RC = 1,
	UC_TOO = 2,
	UD_TOO = 4,
	ON_RAW = 8,
	ON_RNIC = 16,
	ON_UC = ON_RC | UC_TOO,
	ON_UD = ON_UC | UD_TOO
};
enum { WITH_IMM = 1, WITH_INV = 2 };

const struct opcode opcodes[OPCODES] = {
#define OPCODE(text, value, wc, on, what, extras, op)                                              \
	[value] = { .name = #text,                                                                 \
		    .send_op = op,                                                                 \
		    .completion = wc,                                                              \
		    .services = on,                                                                \
		    .operation = what,                                                             \
		    .has_imm = (extras)&WITH_IMM,                                                  \
		    .has_inv = (extras)&WITH_INV },
#include "object/opcode.def"
#undef OPCODE
};

static unsigned service_of(unsigned type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return ON_RC;
	case IBV_QPT_UC:
		return UC_TOO;
	case IBV_QPT_UD:
		return UD_TOO;
	case IBV_QPT_RAW_PACKET:
		return ON_RAW;
	case OPCODE_QPT_RNIC:
		return ON_RNIC;
	default:
		return 0;
	}
}

const struct opcode *opcode_find(enum ibv_wr_opcode opcode, unsigned type)
{
	return (unsigned)opcode < OPCODES && opcodes[opcode].services & service_of(type)
		       ? &opcodes[opcode]
		       : NULL;
}

uint64_t opcode_send_ops(unsigned type)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < OPCODES; i++)
		if (opcodes[i].services & service_of(type))
			all |= opcodes[i].send_op;
	return all;
}
