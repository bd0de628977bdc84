/*
 * Verdict - what a request packet can end in, and what follows from it: one table.
 *
 * Pure. Deciding is the responder's business (responder.c), and so is carrying out what the table
 * says; the completer reads the same table for what a NAK means to the requester. Packets that are of
 * no connection, duplicates and what comes behind a gap never get so far.
 */
#ifndef ROCE_VERDICT_H
#define ROCE_VERDICT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum verdict {
	VERDICT_OK,
	VERDICT_OUT_OF_ORDER, /* something before it is missing */
	VERDICT_NO_RECEIVE,
	VERDICT_TOO_LONG,      /* for the receive */
	VERDICT_RECEIVE_FAULT, /* the receive's memory is not usable */
	VERDICT_INVALID,    /* does not fit what came before, length, alignment, too many READs */
	VERDICT_ACCESS,	    /* R_Key or right */
	VERDICT_INVALIDATE, /* SEND_WITH_INV with a key that does not allow it */
	VERDICT_REVOKING,   /* SEND_WITH_INV, and somebody still copies by the key, which is dead */
	VERDICTS
};

enum verdict_service { VERDICT_RC, VERDICT_UC, VERDICT_SERVICES };

#define VERDICT_SILENT	 0xff /* no NAK is sent */
#define VERDICT_NO_EVENT -1

struct reaction {
	uint8_t syndrome;	/* of the NAK, without the RNR timer; or VERDICT_SILENT */
	uint8_t receive_status; /* the receive completes with it (enum ibv_wc_status); 0: it stays */
	bool fails_qp;		/* to ERR */
	bool ends_message;	/* what was received of it is forgotten */
	int event;		/* enum ibv_event_type, or VERDICT_NO_EVENT */
	uint8_t requester_status; /* what the requester's request completes with; 0: it tries again */
};

const struct reaction *verdict_reaction(enum verdict verdict, enum verdict_service service);

/* What a request completes with that got this NAK; IBV_WC_SUCCESS: none that ends a request. */
enum ibv_wc_status verdict_of_nak(uint8_t syndrome);

#endif
