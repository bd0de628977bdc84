/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection - one end of a connection between two QPs, or of a lookup of a UD QP
 * (IBA 12.9.7, 12.11).
 *
 * In:  calls of its user (connection_connect and so on), messages from the other end, time.
 * Out: messages to the other end, and events for its user, both through struct connection_env.
 *
 * No I/O, no clock, no allocation, no locks. Time is in ns of any monotonic clock and comes as an
 * argument; `deadline_ns` is when connection_on_time wants to be called. The functions of the env
 * must not call back into the connection.
 *
 * Once `state` is CONNECTION_CLOSED, nothing more happens and the owner may free it. A user that
 * goes away calls connection_abandon: the connection then ends itself, and raises no more events.
 */
#ifndef IBCM_CONNECTION_H
#define IBCM_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "ibcm/message.h"

#define CONNECTION_RESPONSE_TIMEOUT 20 /* exponents, as all time-outs of messages: 4.3 s */
#define CONNECTION_EXPONENT_0_NS    INT64_C(4096)
#define CONNECTION_TRIES	    15

enum connection_state {
	CONNECTION_CLOSED = 0,
	CONNECTION_REQ_SENT,
	CONNECTION_REP_RCVD, /* waits for connection_ready */
	CONNECTION_REQ_RCVD, /* waits for connection_accept or _reject */
	CONNECTION_REP_SENT,
	CONNECTION_ESTABLISHED,
	CONNECTION_DREQ_SENT,
	CONNECTION_DREQ_RCVD, /* waits for connection_disconnect */
	CONNECTION_TIMEWAIT,
	CONNECTION_SIDR_REQ_SENT,
	CONNECTION_SIDR_REQ_RCVD, /* waits for connection_accept or _reject */
};

enum connection_event {
	CONNECTION_ON_RESPONSE,	   /* REP, or SIDR_REP with status 0 */
	CONNECTION_ON_ESTABLISHED, /* RTU */
	CONNECTION_ON_REJECTED,	   /* REJ; SIDR_REP with another status */
	CONNECTION_ON_UNREACHABLE, /* no answer; there is no message */
	CONNECTION_ON_DISCONNECTED,
	CONNECTION_ON_TIMEWAIT_EXIT,
};

struct connection;

struct connection_env {
	void (*send)(struct connection *c, const struct ibcm_message *m);
	/* m: the message that caused it, or NULL. */
	void (*raise)(struct connection *c, enum connection_event event,
		      const struct ibcm_message *m);
};

struct connection {
	const struct connection_env *env;
	enum connection_state state;
	bool abandoned;
	bool is_active; /* it sent the REQ, and sends the RTU */
	bool is_xrc;
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint64_t transaction;
	int64_t deadline_ns; /* 0: none */
	int64_t wait_ns;     /* for an answer, each try */
	unsigned tries_left;
	bool has_mra;	     /* of the message that waits */
	uint8_t ack_timeout; /* exponent: packets are no longer on their way after twice that */
	struct ibcm_message sent; /* REQ, REP, DREQ, SIDR_REQ: what is repeated */
};

/* local_id: the communication ID; not 0, unique among all connections of the host. */
void connection_init(struct connection *c, const struct connection_env *env, uint32_t local_id);

/*
 * Sends a REQ or SIDR_REQ: `request` is complete but for transaction, local_id and time-outs, which
 * are set here.
 */
void connection_connect(struct connection *c, const struct ibcm_message *request, int64_t now_ns);

/* A REQ or SIDR_REQ came for this new connection. */
void connection_on_request(struct connection *c, const struct ibcm_message *request,
			   int64_t now_ns);

/*
 * Calls of the user. 0, or -EINVAL: not in this state. The REP's or SIDR_REP's qpn, psn, qkey,
 * resources, and private data come from `answer`; the rest is set here.
 */
int connection_accept(struct connection *c, const struct ibcm_message *answer, int64_t now_ns);
int connection_reject(struct connection *c, const struct ibcm_message *answer);
int connection_ready(struct connection *c);	/* the active end sends RTU */
int connection_establish(struct connection *c); /* the passive end got data before the RTU */
int connection_disconnect(struct connection *c, int64_t now_ns);

void connection_abandon(struct connection *c, int64_t now_ns);

/* A message of the other end: its remote_id is this local_id, or it is a REQ seen before. */
void connection_on_message(struct connection *c, const struct ibcm_message *m, int64_t now_ns);

/*
 * What was under way to the other end may be lost: repeats the message that waits for an answer; or
 * an RTU or a user's REJ, since the other end waits for it. That does not count as a try.
 */
void connection_resend(struct connection *c);

/* To be called when deadline_ns is over. */
void connection_on_time(struct connection *c, int64_t now_ns);

/*
 * Makes the answer to a message that is for no connection. False: it gets none. reason: of a REJ to
 * a REQ.
 */
bool connection_answer_stray(const struct ibcm_message *m, enum ibcm_reason reason,
			     struct ibcm_message *answer);

#endif
