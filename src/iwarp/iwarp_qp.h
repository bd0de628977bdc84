/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP QP - the state of an RC QP on a TCP stream (qp->path_data).
 *
 * qp->lock guards all of it. Its size is fixed when it is made, but for two buffers: a peer
 * cannot make it grow.
 */
#ifndef IWARP_IWARP_QP_H
#define IWARP_IWARP_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "execute/depth.h"
#include "execute/execute.h"
#include "execute/local.h"
#include "iwarp/iwarp.h"
#include "iwarp/segment.h"
#include "iwarp/terminate.h"
#include "object/limits.h"
#include "object/qp.h"

/* Of the stream. docs/design/iwarp.md has the table of what leads from one to the next. */
enum stream_state {
	STREAM_NONE, /* never attached */
	STREAM_OPEN,
	STREAM_CLOSING,	  /* iwarp_disconnect: what is posted still leaves */
	STREAM_FINISHED,  /* then the half close: the peer's responses and requests still come */
	STREAM_DRAINING,  /* the QP is in ERR; what is staged, a TERMINATE too, still leaves */
	STREAM_LINGERING, /* after the half close of a QP in ERR: waits for the peer's */
	STREAM_ENDED,	  /* env.ended was called */
};

/* A READ or atomic without its response. */
struct outstanding {
	bool is_rtr; /* the initiator's first READ, which is no request of the program */
	bool is_atomic;
	uint32_t seq;  /* in the SQ */
	uint32_t msn;  /* of the request, and the identifier of an atomic */
	uint32_t stag; /* of the sink */
	uint64_t to;
	uint32_t length, received;
};

/* The response to a READ or atomic that the responder owes, or what is left of it. */
struct owed_response {
	bool is_atomic;
	bool begun;	    /* a segment of it was built */
	uint32_t sink_stag; /* atomic: its identifier */
	uint64_t sink_to;
	uint32_t rkey;
	uint64_t address;
	uint32_t left;	/* bytes */
	uint64_t value; /* of an atomic: the original value */
};

/* Bytes for the stream that are copied already: stage.h. */
struct stage {
	uint8_t *bytes;
	size_t head, tail, room;
};

/* What the requester and the responder send, in turns: transmit.c. */
struct sending {
	bool in_message;     /* of the request at sq.issue, or of the oldest response */
	bool is_response;    /* that message */
	bool immediate_owed; /* a WRITE_WITH_IMM has its WRITE built, not the immediate data */
	bool gated;	     /* the responder waits for the initiator's first FPDU */
	bool blocked;	     /* the stream has no room: until iwarp_on_writable */
	bool yielded;	     /* its share has left: until iwarp_on_writable */
	bool broken;	     /* it takes no byte any more; what came before may still be read */
	uint32_t send_msn, request_msn, response_msn; /* of the next message in queue 0, 1, 3 */
	uint32_t finish;    /* requests before this one are finished, or wait for a response */
	uint64_t position;  /* bytes of the stream in all FPDUs that were built */
	uint64_t share_end; /* the position at which this turn ends */
};

enum input_state {
	INPUT_HEADER,  /* the ULPDU length and the headers are not complete */
	INPUT_PAYLOAD, /* `left` bytes of payload */
	INPUT_TRAILER, /* `left` bytes of pad and CRC */
};

#define INPUT_BYTES 65536
#define CONTROL_MAX 64

/* What is received: input.c finds FPDUs, accept.c takes their segments. */
struct input {
	uint8_t state;	/* enum input_state */
	bool whole;	/* FPDUs are put together before they are looked at: CRC, markers */
	bool any;	/* an FPDU has come */
	bool at_end;	/* the peer's FIN has come */
	uint32_t until; /* at_end: requests before this one still leave */
	uint32_t left;
	uint32_t payload; /* bytes of payload in this segment */
	uint32_t ulpdu;
	uint8_t *buffer; /* INPUT_BYTES; `start` to `end` is not parsed yet */
	uint32_t start, end;
	/* `whole`: the raw FPDU so far */
	uint8_t *fpdu;
	uint32_t fpdu_filled;
	uint64_t position; /* of the FPDU's first byte in the stream, for markers */
	/* the segment */
	struct segment segment;
	uint8_t header[SEGMENT_HEADER_MAX];
	uint8_t control[CONTROL_MAX]; /* payload of READ requests, atomics, TERMINATEs */
	uint32_t control_bytes;
};

/* A request that was refused: the connection ends once all earlier ones are answered. */
struct refused {
	bool pending, tagged;
	uint8_t verdict; /* enum verdict */
	enum cause cause;
};

struct iwarp_qp {
	struct qp *qp;
	void *stream;
	struct iwarp_options options;
	uint8_t state;	   /* enum stream_state */
	uint8_t end;	   /* enum iwarp_end, once the reason is known */
	uint8_t terminate; /* enum terminate: to be sent when the QP enters ERR */
	uint8_t terminate_header[SEGMENT_HEADER_MAX + READ_REQUEST_BYTES];
	uint8_t terminate_header_bytes;
	uint16_t terminate_length;
	bool lost; /* the stream is of no use any more */

	/* requester and completer */
	struct sending sending;
	struct stage stage;
	struct local_failure failure;
	uint32_t revoke_tries; /* of BIND_MW or LOCAL_INV at sq.issue, in vain */
	/*
	 * A ring (execute/depth.h) for ORD, or for the RTR, which comes before all requests. Both
	 * rings are made with the QP, as the connection has agreed on ORD and IRD by then.
	 */
	uint32_t outstanding_head, outstanding_tail, outstanding_slots;
	struct outstanding *outstanding;

	/* responder */
	struct input input;
	uint32_t expected_msn[DDP_QUEUES];
	uint32_t received; /* bytes of the current SEND */
	uint32_t written;  /* bytes of the current WRITE, and of the last one after it */
	bool in_write;	   /* the last tagged segment of a WRITE has not come */
	uint32_t revoked;  /* mw_invalidate_once, of a SEND_WITH_INV that waits */
	struct refused refused;
	bool revoking; /* that SEND is received, but a thread still copies by the key */
	uint32_t response_head, response_tail, response_slots; /* a ring for IRD */
	struct owed_response *responses;
};

extern struct iwarp_env iwarp_env;

/*
 * Bytes of payload in one segment, at most. Long segments hold whole pages, so the kernel copies
 * between addresses that are aligned alike.
 */
static inline uint32_t iwarp_segment_room(const struct iwarp_qp *iq, uint32_t header)
{
	uint32_t room = iq->options.mulpdu - header;

	return room >= 32768 ? room & ~4095u : room;
}

static inline struct outstanding *outstanding_at(const struct iwarp_qp *iq, uint32_t i)
{
	return &iq->outstanding[i & (iq->outstanding_slots - 1)];
}

static inline struct owed_response *response_at(const struct iwarp_qp *iq, uint32_t i)
{
	return &iq->responses[i & (iq->response_slots - 1)];
}

static inline uint32_t iwarp_outstanding(const struct iwarp_qp *iq)
{
	return iq->outstanding_tail - iq->outstanding_head;
}

static inline uint32_t iwarp_owed(const struct iwarp_qp *iq)
{
	return iq->response_tail - iq->response_head;
}

/* Requests and responses may be sent. */
static inline bool iwarp_is_sending(const struct iwarp_qp *iq)
{
	return (iq->state == STREAM_OPEN || iq->state == STREAM_CLOSING) && !iq->lost &&
	       !iq->sending.broken;
}

/* FPDUs of the peer are executed. */
static inline bool iwarp_is_receiving(const struct iwarp_qp *iq)
{
	return (iq->state == STREAM_OPEN || iq->state == STREAM_CLOSING ||
		iq->state == STREAM_FINISHED) &&
	       !iq->lost;
}

#endif
