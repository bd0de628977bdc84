/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/verdict.h"

/* The requester sends the request again. */
#define AGAIN(refusal)                                                                             \
	{                                                                                          \
		refusal, 0, false, false, VERDICT_NO_EVENT                                         \
	}
/* UC: the responder drops the message and sends nothing (IBA 9.8.2.2.2). */
#define LOST                                                                                       \
	{                                                                                          \
		REFUSAL_SILENT, 0, false, true, VERDICT_NO_EVENT                                   \
	}

/* IBA 9.9.3.1, tables 60 and 61; CONTRACT 15 to 21. The first column is RC, the second UC. */
static const struct reaction reactions[VERDICTS][VERDICT_SERVICES] = {
	[VERDICT_OK] = { { REFUSAL_SILENT, 0, false, false, VERDICT_NO_EVENT },
			 { REFUSAL_SILENT, 0, false, false, VERDICT_NO_EVENT } },
	[VERDICT_OUT_OF_ORDER] = { AGAIN(REFUSAL_SEQUENCE), LOST },
	[VERDICT_NO_RECEIVE] = { AGAIN(REFUSAL_RNR), LOST },
	[VERDICT_TOO_LONG] = { { REFUSAL_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR, true, true,
				 VERDICT_NO_EVENT },
			       LOST },
	[VERDICT_RECEIVE_FAULT] = { { REFUSAL_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR, true, true,
				      VERDICT_NO_EVENT },
				    { REFUSAL_SILENT, IBV_WC_LOC_PROT_ERR, true, true,
				      VERDICT_NO_EVENT } },
	[VERDICT_INVALID] = { { REFUSAL_INVALID_REQUEST, 0, true, true, IBV_EVENT_QP_REQ_ERR },
			      LOST },
	/* only a WRITE_WITH_IMM has a receive to complete (IBA 11.6.2) */
	[VERDICT_ACCESS] = { { REFUSAL_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR, true, true,
			       IBV_EVENT_QP_ACCESS_ERR },
			     LOST },
	/* class J: the responder sends no NAK, and the requester's retries run out (IBA 9.9.6.3) */
	[VERDICT_INVALIDATE] = { { REFUSAL_SILENT, IBV_WC_REM_INV_REQ_ERR, true, true,
				   VERDICT_NO_EVENT },
				 LOST },
	[VERDICT_REVOKING] = { AGAIN(REFUSAL_RNR), LOST },
	[VERDICT_SOURCE_LOST] = { AGAIN(REFUSAL_RNR), LOST },
};

const struct reaction *verdict_reaction(enum verdict verdict, enum verdict_service service)
{
	return &reactions[verdict][service];
}

enum ibv_wc_status verdict_requester_status(enum refusal refusal)
{
	switch (refusal) {
	case REFUSAL_INVALID_REQUEST:
		return IBV_WC_REM_INV_REQ_ERR;
	case REFUSAL_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case REFUSAL_REMOTE_OPERATION:
		return IBV_WC_REM_OP_ERR;
	default:
		return IBV_WC_SUCCESS;
	}
}
