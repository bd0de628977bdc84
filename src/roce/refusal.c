/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/refusal.h"

#include "packet/packet.h"

#define NAK(which) (PACKET_SYNDROME_NAK | PACKET_NAK_##which)

/* IBA 9.7.5.2.8. */
static const uint8_t syndromes[REFUSALS] = {
	[REFUSAL_RNR] = PACKET_SYNDROME_RNR,
	[REFUSAL_SEQUENCE] = NAK(SEQUENCE),
	[REFUSAL_INVALID_REQUEST] = NAK(INVALID_REQUEST),
	[REFUSAL_REMOTE_ACCESS] = NAK(REMOTE_ACCESS),
	[REFUSAL_REMOTE_OPERATION] = NAK(REMOTE_OPERATION),
};

uint8_t refusal_syndrome(enum refusal refusal)
{
	return syndromes[refusal];
}

enum ibv_wc_status refusal_status(uint8_t syndrome)
{
	/* other responders send it for READs; this one does not */
	if (syndrome == NAK(INVALID_RD_REQUEST))
		return IBV_WC_REM_INV_REQ_ERR;
	for (int r = REFUSAL_SILENT + 1; r < REFUSALS; r++)
		if (syndromes[r] == syndrome)
			return verdict_requester_status((enum refusal)r);
	return IBV_WC_SUCCESS;
}
