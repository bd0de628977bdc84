#include "roce/verdict.h"

#include "packet/packet.h"

#define NAK(which) (PACKET_SYNDROME_NAK | PACKET_NAK_##which)
/* The requester tries again. */
#define AGAIN(syndrome) { syndrome, 0, false, false, VERDICT_NO_EVENT, 0 }
/* UC: the message is gone, and nobody is told (IBA 9.8.2.2.2). */
#define LOST { VERDICT_SILENT, 0, false, true, VERDICT_NO_EVENT, 0 }

/* IBA 9.9.3.1, tables 60 and 61; CONTRACT 15 to 21. The first column is RC, the second UC. */
static const struct reaction reactions[VERDICTS][VERDICT_SERVICES] = {
	[VERDICT_OK] = { { VERDICT_SILENT, 0, false, false, VERDICT_NO_EVENT, 0 },
			 { VERDICT_SILENT, 0, false, false, VERDICT_NO_EVENT, 0 } },
	[VERDICT_OUT_OF_ORDER] = { AGAIN(NAK(SEQUENCE)), LOST },
	[VERDICT_NO_RECEIVE] = { AGAIN(PACKET_SYNDROME_RNR), LOST },
	[VERDICT_TOO_LONG] = { { NAK(INVALID_REQUEST), IBV_WC_LOC_LEN_ERR, true, true,
				 VERDICT_NO_EVENT, IBV_WC_REM_INV_REQ_ERR },
			       LOST },
	[VERDICT_RECEIVE_FAULT] = { { NAK(REMOTE_OPERATION), IBV_WC_LOC_PROT_ERR, true, true,
				      VERDICT_NO_EVENT, IBV_WC_REM_OP_ERR },
				    { VERDICT_SILENT, IBV_WC_LOC_PROT_ERR, true, true,
				      VERDICT_NO_EVENT, 0 } },
	[VERDICT_INVALID] = { { NAK(INVALID_REQUEST), 0, true, true, IBV_EVENT_QP_REQ_ERR,
				IBV_WC_REM_INV_REQ_ERR },
			      LOST },
	/* a receive is there if it was a WRITE_WITH_IMM (IBA 11.6.2) */
	[VERDICT_ACCESS] = { { NAK(REMOTE_ACCESS), IBV_WC_LOC_ACCESS_ERR, true, true,
			       IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR },
			     LOST },
	/* class J: the requester is not told (IBA 9.9.6.3) */
	[VERDICT_INVALIDATE] = { { VERDICT_SILENT, IBV_WC_REM_INV_REQ_ERR, true, true,
				   VERDICT_NO_EVENT, 0 },
				 LOST },
	[VERDICT_REVOKING] = { AGAIN(PACKET_SYNDROME_RNR), LOST },
};

const struct reaction *verdict_reaction(enum verdict verdict, enum verdict_service service)
{
	return &reactions[verdict][service];
}

enum ibv_wc_status verdict_of_nak(uint8_t syndrome)
{
	/* of responders that tell READs apart; it has no verdict of its own here */
	if (syndrome == NAK(INVALID_RD_REQUEST))
		return IBV_WC_REM_INV_REQ_ERR;
	for (int v = 0; v < VERDICTS; v++)
		if (reactions[v][VERDICT_RC].syndrome == syndrome &&
		    reactions[v][VERDICT_RC].requester_status)
			return (enum ibv_wc_status)reactions[v][VERDICT_RC].requester_status;
	return IBV_WC_SUCCESS;
}
