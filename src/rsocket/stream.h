/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream - a connected rsocket: its CM id, its RC QP, its buffers, and what it may do.
 *
 * In:  calls of any thread; completions, and events of the CM, which those calls fetch.
 * Out: messages (message.h), CM calls (connect.h).
 *
 * A stream has no thread: calls of the program process what has arrived. Between calls the adapter
 * receives data, credits and acknowledgements by itself, until the credits are used up.
 *
 * Locks, in this order: `sending`, or `receiving` (never both), then `lock`. The first two let one
 * thread at a time copy out of or into the program's memory; no thread holds one while it sleeps for the
 * peer. `lock` guards all the rest, and posting: the order of `sent` is that of the QP.
 *
 * The receive buffer and the send buffer are rings; positions are in bytes since the beginning.
 */
#ifndef RSOCKET_STREAM_H
#define RSOCKET_STREAM_H

#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "rsocket/protocol.h"
#include "rsocket/table.h"
#include "rsocket/wait.h"

enum stream_phase {
	STREAM_NEW,
	STREAM_BOUND,
	STREAM_LISTENING,
	STREAM_RESOLVING,  /* the peer's address, then the route to it */
	STREAM_CONNECTING, /* the request has been sent */
	STREAM_ACCEPTING,  /* the answer has been sent, or is about to be; the peer has not confirmed it */
	STREAM_CONNECTED,
	STREAM_FAILED, /* never connected */
	STREAM_ENDED,  /* was connected */
};

enum {
	STREAM_CONTROLS = 4,	/* requests kept back for credits and control messages */
	STREAM_SPARE = 8,	/* receives beyond those that credits are given for */
	STREAM_INLINE_MIN = 24, /* the longest of our own messages */
	STREAM_SEND_MIN = 2048, /* less room than this counts as none */
};

/* A request that was posted and not yet known to have completed. */
struct stream_sent {
	uint64_t send_end; /* the send ring is free up to here when it has */
	bool control;
};

struct stream {
	struct rsocket base;
	struct rdma_event_channel *channel; /* its fd is the number of the rsocket; O_NONBLOCK */
	struct rdma_cm_id *id;
	int family;

	/* What the endpoint will be like; fixed once it is open */
	uint32_t receive_bytes, send_bytes, sq_size, rq_size, inline_bytes, mappings;
	void *route; /* RDMA_ROUTE: struct ibv_path_data[], or NULL */
	size_t route_bytes;
	uint64_t options[3]; /* SOL_SOCKET, TCP, IPv6: a bit for each option that is on */
	struct linger linger;
	unsigned keepalive_s; /* TCP_KEEPIDLE; 0: the system's default */
	bool keepalive;
	struct list keepalive_link; /* of keepalive.c, */
	uint64_t keepalive_due_ns;  /* and guarded by its lock */

	struct lock sending, receiving, lock;

	/* Guarded by lock; phase, may_send and may_receive are read without, too */
	_Atomic int phase;
	_Atomic bool may_send, may_receive;
	bool shut_send, shut_receive; /* by the program here */
	bool reset;		      /* ended by an error, which may have been told by now */
	bool broken;		      /* the peer does not keep to the protocol */
	int error; /* for SO_ERROR, or the next call that has nothing else to return */
	struct sockaddr_storage peer; /* that the program connects to */
	unsigned retries;	      /* of resolving it */
	bool told;		      /* a call of rconnect has returned 0, or none will ask */
	bool disconnected;	      /* connect_end was called */
	unsigned looks;		      /* in vain, for events of the CM */
	struct list waiters;
	bool armed;	   /* the CQ will raise an event */
	bool owes;	   /* a control message, */
	enum control owed; /* this one, as soon as it can be posted */

	/* Closed, and of linger.c: */
	struct list linger_link;
	uint64_t linger_until_ns;

	/* The endpoint; NULL until it is open */
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	void *memory; /* lists, send ring, receive ring */
	size_t memory_bytes;
	struct ibv_mr *lists_mr, *send_mr, *receive_mr;
	volatile struct region *targets; /* the peer writes them */
	volatile struct mapping *mapped; /* and these: `mappings` of them */
	uint8_t *send_ring, *receive_ring;
	struct stream_sent *sent; /* sq_size of them */

	/* Sending; guarded by lock */
	uint64_t posted, completed; /* requests */
	uint32_t controls;	    /* of those under way */
	uint32_t quiet;		    /* unsignaled requests since the last signaled one */
	uint64_t quiet_from;	    /* and where the send ring was there */
	uint64_t send_tail, send_head;
	uint16_t tx_count, tx_limit; /* credits */
	struct region to;	     /* the rest of the peer's buffer that is being filled */
	unsigned to_next;	     /* the target that follows */

	/* Receiving */
	uint64_t granted;	   /* how far the peer may write; guarded by lock, read without */
	_Atomic uint64_t arrived;  /* written under lock */
	_Atomic uint64_t consumed; /* written under receiving, or under lock once no thread reads */
	uint16_t rx_count, rx_reported; /* messages; guarded by lock */
	unsigned reposts;
	struct region remote_targets; /* where the peer's list of targets is */
	unsigned remote_next;
	struct region remote_mappings;
	bool swap; /* the peer's lists are in the other byte order */

	/* riomap; guarded by lock, but for its use by riowrite under sending, too */
	struct list mapping_list; /* of mapping.c */
	struct list mapping_news; /* to be told to the peer */
};

/* A stream that is in no table, with the defaults, or those of the listener; -errno. */
int stream_create(int family, const struct stream *listener, struct stream **stream);

static inline struct stream *stream_of(struct rsocket *rs)
{
	return container_of(rs, struct stream, base);
}

/*
 * Makes QP, CQ and buffers on the device of the id, and posts the receives. -errno; what was made
 * is freed with the stream. The caller holds lock, or no other thread knows the stream yet.
 */
int stream_open(struct stream *s) REQUIRES(s->lock);

/* Looks at the CQ and, in phases that change by them, at events of the CM. Never sleeps. */
void stream_progress(struct stream *s) REQUIRES(s->lock);

/* Nothing will come or go any more. The first error counts; 0: the peer closed in order. */
void stream_end(struct stream *s, int error) REQUIRES(s->lock);

/* The error that SO_ERROR would show, which is gone then. */
int stream_take_error(struct stream *s) REQUIRES(s->lock);

/*
 * Returns 0 once ready(s), which is called under lock; -EAGAIN at once with `nonblock`, or at the
 * deadline (0: none), -EINTR, or -EBADF after rclose. Looks for some time before it sleeps
 * (config.h).
 */
int stream_wait(struct stream *s, bool (*ready)(struct stream *s), bool nonblock,
		uint64_t deadline_ns) EXCLUDES(s->lock);

/* What poll() would say of it: those of `events`, and POLLERR and POLLHUP. Looks first. */
short stream_poll(struct stream *s, short events) REQUIRES(s->lock);

/* The descriptors that will be readable when there is news, with the CQ armed: how many, at most 2. */
int stream_arm(struct stream *s, struct pollfd fds[2]) REQUIRES(s->lock);

/* One of those descriptors was readable: takes the event, and wakes the other waiters. */
void stream_disarm(struct stream *s) REQUIRES(s->lock);

bool stream_is_connecting(const struct stream *s);
bool stream_nonblocking(const struct stream *s, int flags);

#endif
