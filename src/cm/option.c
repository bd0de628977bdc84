/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of an identifier.
 */
#include <errno.h>
#include <string.h>

#include "cm/export.h"
#include "cm/id.h"
#include "cm/route.h"

#define ACK_TIMEOUT_MAX 31

static int set_flag(struct id *id, uint32_t flag, const void *value, size_t len)
{
	int on;

	if (len != sizeof(on))
		return -EINVAL;
	memcpy(&on, value, sizeof(on));
	/* A listener does not share its port, and sharing cannot be undone. */
	if (flag == CTL_CM_REUSEADDR && (on ? id->state == ID_LISTENING : id->state != ID_IDLE))
		return -EINVAL;
	if (flag == CTL_CM_AFONLY && id->state != ID_IDLE && id->state != ID_BOUND)
		return -EINVAL;
	id->bind_flags = on ? id->bind_flags | flag : id->bind_flags & ~flag;
	return 0;
}

/* The kernel refuses it for others, too. */
static bool has_timer(const struct id *id)
{
	return id->base.qp_type == IBV_QPT_RC || id->base.qp_type == IBV_QPT_XRC_SEND;
}

static int set_id_option(struct id *id, int name, const void *value, size_t len)
{
	uint8_t byte;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (len != sizeof(byte))
			return -EINVAL;
		memcpy(&id->tos, value, sizeof(byte));
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		return set_flag(id, CTL_CM_REUSEADDR, value, len);
	case RDMA_OPTION_ID_AFONLY:
		return set_flag(id, CTL_CM_AFONLY, value, len);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(byte))
			return -EINVAL;
		memcpy(&byte, value, sizeof(byte));
		if (byte > ACK_TIMEOUT_MAX || !has_timer(id))
			return -EINVAL;
		id->ack_timeout = byte;
		id->has_ack_timeout = true;
		return 0;
	default:
		return -ENOSYS;
	}
}

CM_EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			      size_t optlen)
{
	if (level == RDMA_OPTION_ID)
		return answer(set_id_option(id_of(id), optname, optval, optlen));
	if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
		return answer(route_give(id_of(id), optval, optlen));
	return answer(-ENOSYS);
}
