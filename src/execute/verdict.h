/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verdict - the outcomes of a request at the responder, and the table of reactions to each.
 *
 * In:  a verdict of execute.h or of a transport's responder.
 * Out: the refusal to send, the completion, the event, and the fate of the QP (reaction.h).
 *
 * The completer of a requester reads the same table for the status that a NAK means. A transport
 * drops requests of no connection, duplicates, and packets after a gap without a verdict. Pure.
 */
#ifndef EXECUTE_VERDICT_H
#define EXECUTE_VERDICT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum verdict {
	VERDICT_OK,
	VERDICT_OUT_OF_ORDER, /* an earlier packet is missing */
	VERDICT_NO_RECEIVE,
	VERDICT_TOO_LONG,      /* longer than the receive */
	VERDICT_RECEIVE_FAULT, /* the receive's memory is not accessible */
	VERDICT_INVALID,       /* wrong sequence of opcodes, length or alignment, too many READs */
	VERDICT_ACCESS,	       /* R_Key or right */
	VERDICT_INVALIDATE,    /* SEND_WITH_INV with a key that it cannot invalidate */
	VERDICT_REVOKING,      /* SEND_WITH_INV: a thread still copies by the revoked key */
	/* shared memory only: the payload, in the requester's memory, cannot be reached */
	VERDICT_SOURCE_LOST,
	VERDICTS
};

/*
 * What the responder tells the requester. The transport encodes it: a NAK's syndrome, a NAK record.
 */
enum refusal {
	REFUSAL_SILENT, /* nothing */
	REFUSAL_RNR,
	REFUSAL_SEQUENCE,
	REFUSAL_INVALID_REQUEST,
	REFUSAL_REMOTE_ACCESS,
	REFUSAL_REMOTE_OPERATION,
	REFUSALS
};

enum verdict_service { VERDICT_RC, VERDICT_UC, VERDICT_SERVICES };

#define VERDICT_NO_EVENT -1

struct reaction {
	enum refusal refusal;
	uint8_t receive_status; /* enum ibv_wc_status of the receive; 0: it stays current */
	bool fails_qp;		/* the QP goes to ERR */
	bool ends_message;	/* the responder forgets the message's progress */
	int event;		/* enum ibv_event_type, or VERDICT_NO_EVENT */
};

const struct reaction *verdict_reaction(enum verdict verdict, enum verdict_service service);

/*
 * The status of a refused request; IBV_WC_SUCCESS: it does not complete, and the requester retries.
 */
enum ibv_wc_status verdict_requester_status(enum refusal refusal);

#endif
