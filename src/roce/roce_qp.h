/*
 * Transport QP - what the network path keeps for an RC, UC or XRC QP (qp->path_data): the requester's, the
 * completer's and the responder's state.
 *
 * All of it is guarded by qp->lock, except the timer's place (timer.h). Its size is fixed: a peer
 * cannot make it grow.
 */
#ifndef ROCE_ROCE_QP_H
#define ROCE_ROCE_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pace.h"
#include "object/limits.h"
#include "execute/execute.h"
#include "execute/local.h"
#include "object/qp.h"
#include "packet/packet.h"
#include "roce/timer.h"
#include "roce/roce.h"
#include "roce/window.h"

#define RESPONDER_HELD_MAX 64

enum requester_state {
	REQUESTER_READY,
	REQUESTER_RNR_WAIT, /* until rnr_ns, then from una_psn on again */
};

/* What was sent and is answered by responses: its PSNs, of which these carry one each. */
struct outstanding_read {
	uint32_t first, end;
};

/* An answer that the responder owes, or a part of it. */
struct response {
	uint8_t kind; /* enum packet_kind of the request */
	bool first;   /* nothing of it was sent */
	uint32_t psn; /* of its next packet, ... */
	uint32_t end; /* ... up to this one, exclusive */
	uint32_t msn; /* of the request, if it is new */
	uint32_t pd;  /* number of the one that the key is checked against: XRC has many */
	uint32_t rkey;
	uint64_t va;  /* of its next packet */
	uint32_t left; /* bytes */
	uint64_t value; /* of an atomic: what was there before */
};

/* Answers in the order of their PSNs. */
struct responses {
	uint32_t head, tail;
	struct response entries[LIMIT_QP_RD_ATOM];
};

struct saved_atomic {
	bool valid;
	uint32_t psn;
	uint64_t value;
};

/* A NAK to be sent, or one that ended the connection and is repeated when it was lost. */
struct nak {
	bool owed, final;
	uint8_t syndrome;
	uint32_t psn;
};

/* How fast responses leave: congestion.h. */
struct response_pace {
	bool bounded;	      /* by the window; else by nothing */
	struct window window; /* packets of an interval */
	uint64_t since_ns;    /* the interval's beginning */
	uint32_t sent;	      /* packets in it */
	uint32_t most;	      /* in one of the last intervals */
	uint32_t number;      /* of the next packet, in the circle of PSNs */
};

/* A GSO batch that was sent, and what became of its second packet: gso.h. */
struct gso_watch {
	bool watching;
	uint8_t strikes;	/* it did not arrive, so many times in a row */
	uint32_t first, second; /* PSNs */
	uint32_t responses;	/* responses.tail when it was sent */
};

struct roce_qp {
	struct qp *qp;
	struct wire_flow flow;
	uint32_t mtu;
	bool narrow_reported; /* CAUSE_PATH_TOO_NARROW, once */
	bool no_route;	      /* the wire took no packets since the last progress */

	/*
	 * Requester. una_psn .. next_psn is on the way and not answered. Behind next_psn, up to
	 * max_psn, is what was on the way when the requester went back: answers to it may still come.
	 * A request that is begun (wqe.begun) keeps its PSNs, wqe.first_psn .. end_psn, whatever happens.
	 */
	uint8_t state; /* enum requester_state */
	bool started;  /* the PSNs were set from sq_psn */
	struct local_failure failure;
	uint32_t next_psn, una_psn, max_psn;
	uint32_t looks; /* BIND_MW or LOCAL_INV at sq.issue: in vain, as somebody still copies; ...
			 */
	uint64_t look_ns;     /* ... the next one is due then */
	uint32_t since_ack_req; /* packets since the last one that asked for an acknowledgement */
	uint32_t outstanding_head, outstanding_tail;
	struct outstanding_read outstanding[LIMIT_QP_RD_ATOM];
	struct window window; /* RC, XRC */
	struct pace pace;     /* UC */
	struct gso_watch request_gso;

	/* retransmit.c */
	uint8_t rnr_left, retry_left;
	uint8_t backoff;	/* probes in a row without progress */
	bool gap_open;		/* completer: a response was missed, and we went back */
	uint32_t gap_psn;	/* the last response that came behind the gap */
	bool went_back;		/* since the last progress, to una_psn, at ... */
	uint64_t went_back_ns;
	bool probing;		/* window.before_probe may still be restored */
	uint32_t probe_psn;	/* what is acknowledged from here on was on the way before the probe */
	bool waiting;		/* for an answer; the transport timer runs, ... */
	uint64_t waiting_ns;	/* ... since then */
	bool excused;		/* a time-out was not counted since the last that was */
	bool rtt_running;
	uint32_t rtt_psn;
	/* 0: not measured yet */
	uint64_t rtt_sent_ns, rtt_ns, rtt_var_ns, rtt_min_ns;
	uint8_t probe_backoff; /* how often probes wait twice as long as round trips suggest */
	/* deadlines; 0: not armed */
	uint64_t probe_ns, rnr_ns, again_ns;
	uint64_t timer_ns; /* when the timer fires; TIMER_NEVER */
	struct timer timer;

	/* responder */
	bool expecting;	   /* expected_psn was set from rq_psn */
	bool nak_sent;	   /* a NAK was sent: what comes behind the gap is dropped, up to ... */
	uint32_t stray_psn; /* ... the last packet that was; one before it shows a new attempt */
	bool in_message;   /* FIRST was accepted, LAST has not come */
	uint8_t message_kind; /* enum packet_kind of its FIRST */
	uint32_t expected_psn;
	/*
	 * The last packet of a SEND or WRITE that was carried out, which acknowledgements name. Never
	 * that of a READ or atomic: requesters exist that take those for answered then, without data.
	 */
	uint32_t ack_psn;
	uint32_t msn;	   /* messages carried out */
	uint32_t received; /* bytes of the current message */
	struct remote_range range; /* that it names: of its RETH or AtomicETH */
	uint32_t revoked;  /* by a message that counts as not come while somebody still copies; 0: none */
	/*
	 * Packets of a WRITE that arrived together are copied at once: these were accepted, from
	 * held_psn on, and are still where they arrived.
	 */
	bool more; /* wire_arrival.more of the packet that is looked at */
	uint32_t held, held_psn, held_bytes;
	uint32_t held_ack_psn; /* ack_psn before them */
	struct iovec held_pieces[RESPONDER_HELD_MAX];
	bool ack_owed;
	const void *acknowledged_by; /* the thread that did last; NULL: none that piggyback_ack cares for */
	struct nak nak;
	struct responses responses; /* to new requests */
	struct responses replays;   /* to repeated ones; these go first */
	uint32_t saved_next;
	struct saved_atomic saved[LIMIT_QP_RD_ATOM];
	bool congestion_seen;
	uint64_t cnp_ns; /* when the last CNP was sent */
	struct response_pace response_pace;
	struct gso_watch response_gso;
};

/* What the opcodes of its packets begin with. */
static inline enum packet_service roce_service(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC ? PACKET_RC : qp->type == IBV_QPT_UC ? PACKET_UC : PACKET_XRC;
}

/* NULL: it takes another path, or has no destination yet. */
static inline struct roce_qp *roce_of(const struct qp *qp)
{
	return qp->path == &roce_path ? qp->path_data : NULL;
}

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PACKET_PSN_MASK;
}

/* Packets of a message, or of the responses to a READ. */
static inline uint32_t packets_of(uint32_t length, uint32_t mtu)
{
	return length ? (length - 1) / mtu + 1 : 1;
}

extern struct roce_env roce_env;

/*
 * A packet's QP is not here. Where it is another process's the network delivered it wrongly, merged with
 * packets for this one: that is reported.
 */
void roce_on_unknown_qp(uint32_t qpn);

#endif
