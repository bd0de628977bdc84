/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/qp_states.h"

#include <stdbool.h>

#include "object/opcode.h"

#define STATES (IBV_QPS_ERR + 1)

enum service { RC, UC, UD, XRC_SEND, XRC_RECV, RAW, RNIC, SERVICES };

struct move {
	bool legal;
	int required[SERVICES];
	int optional[SERVICES];
};

#define CUR	   IBV_QP_CUR_STATE
#define ACCESS	   IBV_QP_ACCESS_FLAGS
#define PKEY	   IBV_QP_PKEY_INDEX
#define PORT	   IBV_QP_PORT
#define QKEY	   IBV_QP_QKEY
#define ALT	   IBV_QP_ALT_PATH
#define MIG	   IBV_QP_PATH_MIG_STATE
#define RNR_TIMER  IBV_QP_MIN_RNR_TIMER
#define INIT_ATTR  (PKEY | PORT)
#define RTR_ATTR   (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RETRY_ATTR (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

#define TARGET_ATTR (IBV_QP_MAX_DEST_RD_ATOMIC | RNR_TIMER)
#define RETURN_UC   (CUR | ALT | ACCESS | MIG)
#define RETURN_RC   (RETURN_UC | RNR_TIMER)

static const struct move moves[STATES][STATES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_INIT] = {
			.legal = true,
			.required = {
				[RC] = INIT_ATTR | ACCESS,
				[UC] = INIT_ATTR | ACCESS,
				[UD] = INIT_ATTR | QKEY,
				[XRC_SEND] = INIT_ATTR | ACCESS,
				[XRC_RECV] = INIT_ATTR | ACCESS,
				[RAW] = PORT,
			},
			.optional = { [RNIC] = INIT_ATTR | ACCESS },
		},
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_INIT] = {
			.legal = true,
			.optional = {
				[RC] = INIT_ATTR | ACCESS,
				[UC] = INIT_ATTR | ACCESS,
				[UD] = INIT_ATTR | QKEY,
				[XRC_SEND] = INIT_ATTR | ACCESS,
				[XRC_RECV] = INIT_ATTR | ACCESS,
				[RAW] = PORT,
				[RNIC] = INIT_ATTR | ACCESS,
			},
		},
		[IBV_QPS_RTR] = {
			.legal = true,
			.required = {
				[RC] = RTR_ATTR | TARGET_ATTR,
				[UC] = RTR_ATTR,
				[XRC_SEND] = RTR_ATTR,
				[XRC_RECV] = RTR_ATTR | TARGET_ATTR,
			},
			.optional = {
				[RC] = ALT | ACCESS | PKEY,
				[UC] = ALT | ACCESS | PKEY,
				[UD] = PKEY | QKEY,
				[XRC_SEND] = ALT | ACCESS | PKEY,
				[XRC_RECV] = ALT | ACCESS | PKEY,
				[RNIC] = INIT_ATTR | ACCESS,
			},
		},
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_RTS] = {
			.legal = true,
			.required = {
				[RC] = IBV_QP_SQ_PSN | RETRY_ATTR,
				[UC] = IBV_QP_SQ_PSN,
				[UD] = IBV_QP_SQ_PSN,
				[XRC_SEND] = IBV_QP_SQ_PSN | RETRY_ATTR,
				[XRC_RECV] = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT,
			},
			.optional = {
				[RC] = RETURN_RC,
				[UC] = RETURN_UC,
				[UD] = CUR | QKEY,
				[XRC_SEND] = RETURN_UC,
				[XRC_RECV] = RETURN_RC,
				[RAW] = CUR,
			},
		},
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_RTS] = {
			.legal = true,
			.optional = {
				[RC] = RETURN_RC,
				[UC] = RETURN_UC,
				[UD] = CUR | QKEY,
				[XRC_SEND] = RETURN_UC,
				[XRC_RECV] = RETURN_RC,
				[RAW] = CUR,
				[RNIC] = CUR | PORT | ACCESS,
			},
		},
		[IBV_QPS_SQD] = {
			.legal = true,
			.optional = {
				[RC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[UC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[UD] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[XRC_SEND] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[XRC_RECV] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[RAW] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
			},
		},
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_RTS] = {
			.legal = true,
			.optional = {
				[RC] = RETURN_RC,
				[UC] = RETURN_UC,
				[UD] = CUR | QKEY,
				[XRC_SEND] = RETURN_UC,
				[XRC_RECV] = RETURN_RC,
				[RAW] = CUR,
			},
		},
		[IBV_QPS_SQD] = {
			.legal = true,
			.optional = {
				[RC] = PORT | IBV_QP_AV | RETRY_ATTR | IBV_QP_MAX_DEST_RD_ATOMIC | ALT |
				       ACCESS | PKEY | RNR_TIMER | MIG,
				[UC] = IBV_QP_AV | ALT | ACCESS | PKEY | MIG,
				[UD] = PKEY | QKEY,
				[XRC_SEND] = PORT | IBV_QP_AV | RETRY_ATTR | ALT | ACCESS | PKEY | MIG,
				[XRC_RECV] = PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC |
					     ALT | ACCESS | PKEY | RNR_TIMER | MIG,
			},
		},
	},
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_RTS] = {
			.legal = true,
			.optional = {
				[UC] = CUR | ACCESS,
				[UD] = CUR | QKEY,
			},
		},
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
	},
};

static enum service service_of(unsigned type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC;
	case OPCODE_QPT_RNIC:
		return RNIC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_XRC_SEND:
		return XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return XRC_RECV;
	case IBV_QPT_RAW_PACKET:
		return RAW;
	default:
		return UD;
	}
}

/* RTS of iWARP comes with a connection of rdma_cm, which alone leads there. */
static bool is_of_connection(enum service service, enum ibv_qp_state from, enum ibv_qp_state to)
{
	return service == RNIC && to == IBV_QPS_RTS && from != to;
}

/*
 * Without a move: what rdma_init_qp_attr gives for RTS, as the kernel's iwcm does, is the port
 * alone. siw takes that in each state.
 */
static bool is_attribute(enum service service, enum ibv_qp_state from, enum ibv_qp_state to,
			 int mask)
{
	return service == RNIC && from == to && !(mask & ~(CUR | PORT | ACCESS));
}

int qp_move_mask(unsigned type, int mask)
{
	if (type == IBV_QPT_XRC_SEND)
		return mask & ~TARGET_ATTR;
	return type == IBV_QPT_XRC_RECV ? mask & ~(RETRY_ATTR & ~IBV_QP_TIMEOUT) : mask;
}

enum move_verdict qp_move_check(enum ibv_qp_state from, enum ibv_qp_state to, unsigned type,
				int mask, int *which)
{
	enum service service = service_of(type);
	const struct move *move;
	int lacks, exceeds;

	if (is_attribute(service, from, to, mask))
		return MOVE_OK;
	if ((unsigned int)from >= STATES || (unsigned int)to >= STATES || !moves[from][to].legal ||
	    is_of_connection(service, from, to))
		return MOVE_ILLEGAL;
	move = &moves[from][to];
	lacks = move->required[service] & ~mask;
	exceeds = mask & ~(move->required[service] | move->optional[service] | IBV_QP_STATE);
	if (!lacks && !exceeds)
		return MOVE_OK;
	*which = lacks ? lacks : exceeds;
	return lacks ? MOVE_LACKS : MOVE_EXCEEDS;
}

const char *qp_state_name(enum ibv_qp_state state)
{
	static const char *const names[STATES] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return (unsigned int)state < STATES ? names[state] : "unknown";
}
