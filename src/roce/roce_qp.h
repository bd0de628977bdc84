/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE QP - the state of an RC, UC or XRC QP on the network path (qp->path_data): of its requester,
 * completer and responder.
 *
 * qp->lock guards all of it, except the timer's place in the heap (timer.h). Its size is that which
 * ibv_modify_qp gave it: a peer cannot make it grow.
 */
#ifndef ROCE_ROCE_QP_H
#define ROCE_ROCE_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pace.h"
#include "base/psn.h"
#include "object/limits.h"
#include "execute/depth.h"
#include "execute/execute.h"
#include "execute/local.h"
#include "object/qp.h"
#include "packet/packet.h"
#include "roce/timer.h"
#include "roce/window.h"
#include "udp/wire.h"

#define RESPONDER_HELD_MAX 64

struct copies; /* execute/copies.h */
struct kept;   /* packet/kept.h */
struct kept_packet;

enum requester_state {
	REQUESTER_READY,
	REQUESTER_RNR_WAIT, /* until rnr_ns, then from una_psn on again */
};

/* A READ or atomic without its response: its PSNs, one for each response packet. */
struct outstanding_read {
	psn_t first, end;
};

/* The response to a READ or atomic that the responder owes, or what is left of it. */
struct response {
	bool atomic;   /* it has a value, no data */
	bool first;    /* no packet of it was sent */
	bool original; /* asked for as the original (packet.original), and is it */
	bool copied;   /* its data are in `copies`; only of `replays` */
	psn_t psn;     /* of its next packet */
	psn_t end;     /* after its last packet */
	uint32_t msn;  /* of the request, unless it is a duplicate */
	uint32_t pd;   /* number of the PD for the R_Key's check: XRC has many */
	uint32_t rkey;
	uint64_t va;	/* of its next packet */
	uint32_t left;	/* bytes */
	uint64_t value; /* of an atomic: the original value */
};

/* Responses in the order of their PSNs: a ring (execute/depth.h). */
struct responses {
	uint32_t head, tail, slots;
	struct response *entries;
};

/* The result of an atomic, for a duplicate request (IBA 9.7.5.1.4). */
struct saved_atomic {
	bool valid;
	psn_t psn;
	uint64_t value;
};

/* An owed NAK. A final NAK ended the connection, and is repeated whenever it was lost. */
struct nak {
	bool owed, final;
	uint8_t syndrome;
	psn_t psn;
};

#define GAPS_MAX 16

/* Packets that are missing in a row. */
struct gap {
	psn_t first, end;
};

/* The gaps behind the first one that the responder has not told of yet: gap_report.c. */
struct gap_reports {
	bool wanted; /* the requester asked for them on this connection */
	psn_t seen;  /* behind the last packet that was kept */
	uint32_t count;
	struct gap gaps[GAPS_MAX];
};

/* How fast responses leave: congestion.h. */
struct response_pace {
	bool bounded;	      /* the window is the limit; else there is none */
	struct window window; /* packets in an interval */
	uint64_t since_ns;    /* when the interval began */
	uint32_t sent;	      /* packets in this interval */
	uint32_t most;	      /* packets in one of the last intervals */
	psn_t number;	      /* of the next packet: counted as PSNs are */
};

/* A GSO batch that was sent, and whether its second packet arrived: gso.h. */
struct gso_watch {
	bool watching;
	uint8_t strikes;     /* how many times in a row it did not arrive */
	psn_t first, second; /* PSNs */
	uint32_t responses;  /* responses.tail when it was sent */
};

/* What a requester sends again instead of going back: repair.h. */
struct repair {
	bool open;    /* the packets from una_psn to `end` were sent again, or are about to be */
	bool pending; /* they are about to be */
	bool trusted; /* the last one showed that the responder keeps what is behind a gap */
	psn_t end;
	psn_t sent;	/* next_psn when they were: only what was sent behind them tells */
	uint32_t run;	/* packets sent again at once */
	uint8_t tries;	/* by the timer, since the last progress */
	uint8_t misses; /* in a row, the responder had kept nothing */
	uint8_t skip;	/* so many losses more before the next repair */
	/* what the responder told of behind una_psn (gap_report.c); the first `sent` are on their
	 * way */
	psn_t reported_to; /* what is behind the last gap has arrived, at least one packet */
	uint32_t reports, reports_sent;
	struct reported_gap {
		struct gap gap;
		psn_t next; /* to be sent; gap.end: all were */
		uint64_t sent_ns;
	} reported[GAPS_MAX];
};

/* Responses that the requester asks for again: read_repair.h. */
struct read_repair {
	bool open;	 /* responses are missing from una_psn to `seen`, and may be asked for */
	bool pending;	 /* what is missing from `next` to `seen` is to be asked for at the flush */
	bool trusted;	 /* the last one showed that the responder has copies */
	bool distrusted; /* it takes all it sends for the original */
	bool newer;	 /* some before `anew` came without the bit */
	psn_t seen;	 /* something at or behind this PSN has come */
	psn_t asked;	 /* from this PSN on nothing was asked for */
	psn_t next;	 /* what is missing before this PSN is on its way again */
	psn_t anew;	 /* READs before this PSN may have been executed anew */
	/*
	 * Silence: nothing is known to be lost, and the first `run` outstanding READs were asked
	 * for. `sent` was next_psn then: what is before it may be lost, too. 0: no silence.
	 */
	uint32_t run;
	psn_t sent;
	uint8_t tries;		 /* by the timer, since the last progress */
	uint8_t misses;		 /* in a row, the responder had no copies */
	uint8_t skip;		 /* so many losses more before the next repair */
	struct kept *kept;	 /* responses; NULL: none yet */
	struct kept_packet *ack; /* the last acknowledgement or NAK; NULL: none */
};

struct roce_qp {
	struct qp *qp;
	struct wire_flow flow;
	uint32_t mtu;
	bool narrow_reported; /* CAUSE_PATH_TOO_NARROW, once */
	bool no_route;	      /* the kernel had no route for packets since the last progress */

	/*
	 * Requester. The PSN window: una_psn .. next_psn is in flight (unacknowledged). From
	 * next_psn up to max_psn are packets that were in flight when the requester went back:
	 * acknowledgements of these may still come. A request that was begun (wqe.begun) keeps its
	 * PSNs, wqe.first_psn .. end_psn, however often it is sent.
	 */
	uint8_t state; /* enum requester_state */
	bool started;  /* the PSNs were set from sq_psn */
	struct local_failure failure;
	psn_t next_psn, una_psn, max_psn;
	/* of BIND_MW or LOCAL_INV at sq.issue, in vain: a thread still copies by the key */
	uint32_t revoke_tries;
	uint64_t revoke_ns;	/* when the next try is due */
	uint32_t since_ack_req; /* packets since the last one with AckReq */
	/* a ring for max_rd_atomic; NULL before RTS, and for UC and XRC_RECV */
	uint32_t outstanding_head, outstanding_tail, outstanding_slots;
	struct outstanding_read *outstanding;
	struct window window; /* RC, XRC: the congestion window */
	struct pace pace;     /* UC */
	struct gso_watch request_gso;

	struct repair repair;
	struct read_repair read_repair;

	/* retransmit.c */
	uint8_t rnr_left, retry_left;
	uint8_t backoff;       /* exponential: probes in a row without progress */
	bool gap_open;	       /* the completer missed a response, and the requester went back */
	psn_t gap_psn;	       /* the last response that came after the gap */
	bool went_back;	       /* go-back-N to una_psn, since the last progress */
	uint64_t went_back_ns; /* when it went back */
	bool probing;	       /* a probe was sent, and may turn out spurious: window_undo */
	psn_t probe_psn;     /* acknowledgements from this PSN on are of packets before the probe */
	psn_t resume_psn;    /* next_psn when the first probe was sent */
	bool waiting;	     /* for an acknowledgement: the transport timer runs */
	uint64_t waiting_ns; /* when it began */
	bool excused;	     /* a time-out was noticed late, and not counted */
	bool rtt_running;
	psn_t rtt_psn;
	/* 0: not measured yet */
	uint64_t rtt_sent_ns, rtt_ns, rtt_var_ns, rtt_min_ns;
	uint64_t rtt_recent_ns;	  /* the shortest of the last interval and this one; 0: none */
	uint64_t rtt_next_ns;	  /* the shortest of this interval */
	uint64_t rtt_interval_ns; /* when it began */
	uint8_t probe_backoff;	  /* doublings of the RTO, since probes turned out spurious */
	/*
	 * COUNTER_KEPT and COUNTER_OUT_OF_SEQUENCE until the end of the batch: an atomic addition
	 * waits for the stores of the packet that was copied.
	 */
	uint32_t uncounted_kept, uncounted_out_of_sequence;
	/* deadlines; 0: not armed */
	uint64_t probe_ns, rnr_ns, again_ns;
	uint64_t timer_ns; /* when the timer fires; TIMER_NEVER */
	struct timer timer;

	/* responder */
	bool expecting; /* expected_psn was set from rq_psn */
	bool nak_sent;	/* for expected_psn */
	/* the last one behind the gap; a lower PSN shows that the requester sent something again */
	psn_t out_of_sequence_psn;
	struct kept *kept; /* requests behind the gap; NULL: none yet */
	struct gap_reports gap_reports;
	struct copies *copies; /* of its READs; NULL: no requester has asked for any of late */
	uint64_t copies_ns;    /* when one did */
	bool in_message;       /* FIRST was accepted, LAST has not come */
	uint8_t message_kind;  /* enum operation of its FIRST */
	psn_t expected_psn;
	/*
	 * The PSN of coalesced acknowledgements: the last packet of an executed SEND or WRITE.
	 * Never that of a READ or atomic: some requesters would take it for the response, without
	 * data.
	 */
	psn_t ack_psn;
	uint32_t msn;		   /* messages executed */
	uint32_t received;	   /* bytes of the current message */
	struct remote_range range; /* of its RETH or AtomicETH */
	/* R_Key of a dropped SEND_WITH_INV, by which a thread still copies; or 0 */
	uint32_t revoked;
	/*
	 * The responder copies packets of a WRITE that arrived together (GRO) at once. It holds
	 * accepted packets from held_psn on; their payload is still in the receive buffer.
	 */
	bool more; /* wire_arrival.more of the packet that is being received */
	uint32_t held, held_bytes;
	psn_t held_psn, held_ack_psn; /* the latter: ack_psn before them */
	struct iovec held_pieces[RESPONDER_HELD_MAX];
	bool ack_owed;
	/* the thread that sent the last ACK; NULL: does not matter to piggyback_ack */
	const void *acknowledged_by;
	struct nak nak;
	/* rings for max_dest_rd_atomic, made at RTR; NULL for UC and XRC_SEND */
	struct responses responses; /* to new requests */
	struct responses replays;   /* to duplicate requests; these go first */
	uint32_t saved_next, saved_slots;
	struct saved_atomic *saved; /* the last ones */
	bool congestion_seen;	    /* a CNP is owed */
	uint64_t cnp_ns;	    /* when the last CNP was sent */
	struct response_pace response_pace;
	struct gso_watch response_gso;
};

static inline struct outstanding_read *outstanding_at(const struct roce_qp *tq, uint32_t i)
{
	return &tq->outstanding[i & (tq->outstanding_slots - 1)];
}

static inline struct response *response_at(const struct responses *responses, uint32_t i)
{
	return &responses->entries[i & (responses->slots - 1)];
}

static inline struct saved_atomic *saved_at(const struct roce_qp *tq, uint32_t i)
{
	return &tq->saved[i & (tq->saved_slots - 1)];
}

/* The upper bits of its packets' opcodes. */
static inline enum packet_service roce_service(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC ? PACKET_RC : qp->type == IBV_QPT_UC ? PACKET_UC : PACKET_XRC;
}

/* MSNs count modulo 2^24, too; no code compares them. */
static inline uint32_t msn_add(uint32_t msn, int32_t n)
{
	return (msn + (uint32_t)n) & PACKET_MSN_MASK;
}

/* Packets of a message, or of the responses to a READ. */
static inline uint32_t packets_of(uint32_t length, uint32_t mtu)
{
	return length ? (length - 1) / mtu + 1 : 1;
}

#endif
