/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/qp_names.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/arena.h"

const char *qp_names_type(unsigned type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	case IBV_QPT_DRIVER & 0xff:
		return "DRIVER";
	default:
		return "?";
	}
}

const char *qp_names_state(unsigned state)
{
	static const char *const states[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return state < sizeof(states) / sizeof(states[0]) ? states[state] : "?";
}

const char *qp_names_path(unsigned path)
{
	switch (path) {
	case ARENA_PATH_NONE:
		return "-";
	case ARENA_PATH_LOCAL:
		return "local";
	case ARENA_PATH_WIRE:
		return "wire";
	case ARENA_PATH_TCP:
		return "tcp";
	default:
		return "?";
	}
}
