/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verdict - what a request can end in, and what follows from it: one table.
 *
 * The functions of execute.h and the transports' responders give verdicts; reaction.h puts them into
 * effect. The completer of a requester reads the same table for what a NAK means to it. Requests of no
 * connection, duplicates and what comes behind a gap never get so far: a transport drops them.
 * Pure.
 */
#ifndef EXECUTE_VERDICT_H
#define EXECUTE_VERDICT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum verdict {
	VERDICT_OK,
	VERDICT_OUT_OF_ORDER, /* something before it is missing */
	VERDICT_NO_RECEIVE,
	VERDICT_TOO_LONG,      /* for the receive */
	VERDICT_RECEIVE_FAULT, /* the receive's memory is not usable */
	VERDICT_INVALID,       /* does not fit what came before, length, alignment, too many READs */
	VERDICT_ACCESS,	       /* R_Key or right */
	VERDICT_INVALIDATE,    /* SEND_WITH_INV with a key that does not allow it */
	VERDICT_REVOKING,      /* SEND_WITH_INV: a thread still copies by the key, which is dead */
	VERDICTS
};

/* What the requester is told. How it is said is the transport's: a NAK's syndrome, a NAK record. */
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
	uint8_t receive_status; /* the receive completes with it (enum ibv_wc_status); 0: it stays */
	bool fails_qp;		/* to ERR */
	bool ends_message;	/* what was received of it is forgotten */
	int event;		/* enum ibv_event_type, or VERDICT_NO_EVENT */
};

const struct reaction *verdict_reaction(enum verdict verdict, enum verdict_service service);

/* What a refused request completes with; IBV_WC_SUCCESS: it does not, and the requester tries again. */
enum ibv_wc_status verdict_requester_status(enum refusal refusal);

#endif
