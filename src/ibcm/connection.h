/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection - one end of a connection between two QPs (IBA 12.9.7), or of a service ID resolution
 * for a UD QP (SIDR, IBA 12.11).
 *
 * In:  calls of the user (connection_connect and so on), messages from the peer, time.
 * Out: messages to the peer, and events for the user, both through struct connection_env.
 *
 * No I/O, no clock, no allocation, no locks. Time is in ns of any monotonic clock and comes as an
 * argument. The owner calls connection_on_time at `deadline_ns`. The functions of the env must not
 * call the connection.
 *
 * In CONNECTION_CLOSED nothing more happens, and the owner may free the connection. A user that
 * goes away calls connection_abandon: the connection ends itself, and raises no more events.
 * See docs/design/cm.md for the states.
 */
#ifndef IBCM_CONNECTION_H
#define IBCM_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "ibcm/message.h"

/* exponent, as all CM time-outs: 4.3 s */
#define CONNECTION_RESPONSE_TIMEOUT 20
#define CONNECTION_EXPONENT_0_NS    INT64_C(4096)
#define CONNECTION_TRIES	    15

/*
 * The longest wait for an answer, whatever time-outs the peer names: more than the 68 s of its MRA,
 * which Linux sends, too.
 */
#define CONNECTION_DELAY_NS_MAX INT64_C(150000000000)

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
	CONNECTION_ON_RESPONSE,	    /* REP, or SIDR_REP with status 0 */
	CONNECTION_ON_ESTABLISHED,  /* RTU */
	CONNECTION_ON_REJECTED,	    /* REJ; SIDR_REP with another status */
	CONNECTION_ON_UNREACHABLE,  /* no answer came; the message is NULL */
	CONNECTION_ON_DISCONNECTED, /* likewise NULL if the DREQ got no answer */
	CONNECTION_ON_TIMEWAIT_EXIT,
};

struct connection;

struct connection_env {
	void (*send)(struct connection *c, const struct ibcm_message *m);
	/* `m` is the message that caused the event, or NULL. */
	void (*raise)(struct connection *c, enum connection_event event,
		      const struct ibcm_message *m);
};

struct connection {
	const struct connection_env *env;
	enum connection_state state;
	bool abandoned;
	bool is_active; /* this end sent the REQ, and sends the RTU */
	bool is_xrc;
	bool awaits_ready; /* the peer disconnected before: TIMEWAIT does not end */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint64_t transaction;
	int64_t deadline_ns; /* of the next connection_on_time; 0: none */
	int64_t wait_ns;     /* for an answer to each try */
	unsigned tries_left;
	uint8_t ack_timeout;	  /* exponent; TIMEWAIT lasts twice that */
	struct ibcm_message sent; /* REQ, REP, DREQ or SIDR_REQ, repeated until it is answered */
};

/* `local_id` is the communication ID: not 0, and unique among all connections of the host. */
void connection_init(struct connection *c, const struct connection_env *env, uint32_t local_id);

/*
 * Sends a REQ or SIDR_REQ. Sets transaction, local_id and time-outs; `request` has the other
 * fields.
 */
void connection_connect(struct connection *c, const struct ibcm_message *request, int64_t now_ns);

/* Takes the REQ or SIDR_REQ that the connection was initialized for. */
void connection_on_request(struct connection *c, const struct ibcm_message *request,
			   int64_t now_ns);

/*
 * Calls of the user: 0, or -EINVAL in a wrong state. A REP or SIDR_REP takes qpn, psn, qkey,
 * resources and private data from `answer`; the connection sets the other fields.
 *
 * A passive end raises nothing before connection_accept: if the peer takes its request back, the
 * connection closes, and the call fails. An active end whose peer disconnects between the REP and
 * connection_ready was connected all the same: the call succeeds once, and sends nothing. TIMEWAIT
 * does not end before that, or connection_disconnect, or connection_reject, which fails.
 */
int connection_accept(struct connection *c, const struct ibcm_message *answer, int64_t now_ns);
int connection_reject(struct connection *c, const struct ibcm_message *answer);
int connection_ready(struct connection *c);	/* the active end sends RTU */
int connection_establish(struct connection *c); /* the passive end got data before the RTU */
int connection_disconnect(struct connection *c, int64_t now_ns);

/* The user goes away: rejects, or disconnects, without further events. */
void connection_abandon(struct connection *c, int64_t now_ns);

/* Takes a message of the peer: one whose remote_id is this local_id, or a repeated REQ. */
void connection_on_message(struct connection *c, const struct ibcm_message *m, int64_t now_ns);

/*
 * Repeats the message that waits for an answer, or an RTU or REJ that the peer waits for, because
 * messages may have been lost. That does not count as a try.
 */
void connection_resend(struct connection *c);

/* The owner calls this when `deadline_ns` is over. */
void connection_on_time(struct connection *c, int64_t now_ns);

/*
 * Fills in the answer to a message for no connection; a REQ gets a REJ with `reason`, a SIDR_REQ
 * the status for it. False: no answer.
 */
bool connection_answer_stray(const struct ibcm_message *m, enum ibcm_reason reason,
			     struct ibcm_message *answer);

#endif
