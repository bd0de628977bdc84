/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream - a stream rsocket: its CM id, RC QP, buffers and state.
 *
 * stream_open.h makes it, message.h and connect.h talk to the peer, and the calls of the program
 * make progress by stream_progress.h.
 *
 * Locks, in this order: `sending` or `receiving` (never both), then `lock`. `sending` and
 * `receiving` let one thread at a time copy from or to the program's memory; no thread holds them
 * while it waits for the peer. `lock` guards the rest, and posting, so that the order of `sent` is
 * that of the SQ.
 *
 * The receive buffer and the send buffer are rings. Positions count bytes since the connection
 * began. See docs/design/rsockets.md.
 */
#ifndef RSOCKET_STREAM_H
#define RSOCKET_STREAM_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "rsocket/protocol.h"
#include "rsocket/table.h"

enum stream_phase {
	STREAM_NEW,
	STREAM_BOUND,
	STREAM_LISTENING,
	STREAM_RESOLVING,  /* resolves the peer's address, then the route */
	STREAM_CONNECTING, /* has sent the REQ */
	STREAM_ACCEPTING,  /* sends or has sent the REP, and waits for the RTU or a message */
	STREAM_CONNECTED,
	STREAM_FAILED, /* never connected */
	STREAM_ENDED,  /* was connected */
};

enum {
	STREAM_CONTROLS = 4,	/* WQEs reserved for credits and control messages */
	STREAM_SPARE = 8,	/* receives without credit, for messages that use none */
	STREAM_UNUSED = 8,	/* by iWARP: credits, since rdma-core has no receives to spare */
	STREAM_INLINE_MIN = 24, /* bytes of struct mapping, the longest message of the protocol */
	STREAM_SEND_MIN = 2048, /* bytes; less room in the send ring counts as none */
};

/* A posted request without a completion yet. */
struct stream_sent {
	uint64_t send_end; /* its completion frees the send ring up to here */
	bool control;	   /* one of STREAM_CONTROLS */
};

struct stream {
	struct rsocket base;
	struct rdma_event_channel *channel; /* its fd is the rsocket's number; O_NONBLOCK */
	struct rdma_cm_id *id;
	int family;

	/* Attributes of the QP and the buffers; fixed once stream_open has created them */
	uint32_t receive_bytes, send_bytes, sq_size, rq_size, inline_bytes, mappings;
	void *route; /* RDMA_ROUTE: struct ibv_path_data[], or NULL */
	size_t route_bytes;
	uint64_t options[3]; /* SOL_SOCKET, TCP, IPv6: a bit for each option that is on */
	struct linger linger;
	unsigned keepalive_s; /* TCP_KEEPIDLE; 0: the system's default */
	bool keepalive;
	struct list keepalive_link; /* both guarded by the mutex of keepalive.c */
	uint64_t keepalive_due_ns;

	struct lock sending, receiving, lock;

	/* Guarded by lock; phase, may_send and may_receive are also read without it */
	_Atomic int phase;
	_Atomic bool may_send, may_receive;
	bool shut_send, shut_receive; /* by rshutdown or rclose at this end */
	bool reset;		      /* an error ended the connection */
	bool broken;		      /* the peer violated the protocol */
	int error; /* errno for SO_ERROR, or for the next call that has nothing else to return */
	struct sockaddr_storage peer; /* that the program connects to */
	unsigned retries;	      /* of resolving `peer` */
	bool told;		      /* rconnect has returned 0, or raccept made the stream */
	bool disconnected;	      /* connect_end has sent the DREQ */
	bool peer_has_shut;	      /* it sends no more: CONTROL_SHUTDOWN has come */
	unsigned looks;		      /* polls in vain since the last completion */
	struct list waiters;
	bool armed; /* the CQ is armed (ibv_req_notify_cq) */
	bool owes;  /* the control message `owed` waits to be posted */
	enum control owed;

	/* Guarded by the mutex of linger.c, once the stream is closed */
	struct list linger_link;
	uint64_t linger_until_ns;

	/* NULL before stream_open */
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	void *memory; /* lists, send ring, receive ring */
	size_t memory_bytes;
	struct ibv_mr *lists_mr, *send_mr, *receive_mr;
	bool by_send;	    /* iWARP: immediates are SENDs */
	uint32_t *messages; /* by_send: a buffer for each receive, in the order of posting */
	struct ibv_mr *messages_mr;
	unsigned next_message;		 /* the buffer of the next receive to be posted */
	volatile struct region *targets; /* PROTOCOL_TARGETS entries, which the peer writes */
	volatile struct mapping *mapped; /* `mappings` entries, which the peer writes */
	uint8_t *send_ring, *receive_ring;
	struct stream_sent *sent; /* sq_size entries */

	/* Sending; guarded by lock */
	uint64_t posted, completed; /* requests since the beginning */
	uint32_t controls;	    /* posted control messages without completion */
	uint32_t unsignaled;	    /* requests since the last signaled one */
	uint64_t unsignaled_from;   /* send_tail at the last signaled one */
	uint64_t send_tail, send_head;
	uint16_t tx_count, tx_limit; /* credits used, and granted by the peer; modulo 2^16 */
	uint16_t unused;	     /* credits that are not to be used */
	struct region to;	     /* what is left of the half that is being filled */
	unsigned to_next;	     /* index of the target after it */

	/* Receiving */
	uint64_t granted;	   /* how far the peer may write; guarded by lock, read without */
	_Atomic uint64_t arrived;  /* written under lock */
	_Atomic uint64_t consumed; /* written under receiving, or under lock once no thread reads */
	uint16_t rx_count, rx_reported; /* messages arrived, and credited; guarded by lock */
	unsigned reposts;		/* receives to post again */
	struct region remote_targets;	/* the peer's list of targets */
	unsigned remote_next;		/* its entry to write next */
	struct region remote_mappings;	/* the peer's list of mappings */
	bool swap;			/* the peer's lists are in the other byte order */

	/* riomap; guarded by lock */
	struct list mapping_list; /* mappings that the peer knows, and those not for it */
	struct list mapping_news; /* mappings and unmappings to tell the peer */
};

static inline struct stream *stream_of(struct rsocket *rs)
{
	return container_of(rs, struct stream, base);
}

/*
 * Ends a connection with `error`, an errno, or 0 after an orderly close. Later calls change
 * nothing.
 */
void stream_end(struct stream *s, int error) REQUIRES(s->lock);

/* Returns and clears the pending error (SO_ERROR): an errno, or 0. */
int stream_take_error(struct stream *s) REQUIRES(s->lock);

/* Requested or accepted, and neither connected nor failed yet. */
bool stream_is_connecting(const struct stream *s);

/* Whether a call with these flags (MSG_*) must not wait. */
bool stream_nonblocking(const struct stream *s, int flags);

#endif
