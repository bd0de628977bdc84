/* SPDX-License-Identifier: BSD-2-Clause */
#include "ibcm/saved.h"

#include "ibcm/mad.h"

#define EXPONENT_MAX 31

void connection_save(const struct connection *c, struct connection_saved *saved)
{
	*saved = (struct connection_saved){
		.state = c->state,
		.type = c->sent.type,
		.local_id = c->local_id,
		.remote_id = c->remote_id,
		.local_qpn = c->local_qpn,
		.remote_qpn = c->remote_qpn,
		.transaction = c->transaction,
		.deadline_ns = c->deadline_ns,
		.wait_ns = c->wait_ns,
		.tries_left = c->tries_left,
		.is_xrc = c->is_xrc,
		.awaits_ready = c->awaits_ready,
		.ack_timeout = c->ack_timeout,
		.is_active = c->is_active,
		.sent = c->sent,
	};
}

/* The type of message that a connection in this state repeats; 0: none. */
static uint32_t repeated_type(uint32_t state)
{
	switch (state) {
	case CONNECTION_REQ_SENT:
		return IBCM_REQ;
	case CONNECTION_REP_SENT:
		return IBCM_REP;
	case CONNECTION_DREQ_SENT:
		return IBCM_DREQ;
	case CONNECTION_SIDR_REQ_SENT:
		return IBCM_SIDR_REQ;
	default:
		return 0;
	}
}

/*
 * Whether `wait_ns` is a CM response time-out: 4.096 us times a power of two. For requests of this
 * end it is CONNECTION_RESPONSE_TIMEOUT, for replies the peer's.
 */
static bool is_wait(int64_t wait_ns, bool is_ours)
{
	int64_t unit = wait_ns / CONNECTION_EXPONENT_0_NS;

	if (is_ours)
		return wait_ns == CONNECTION_EXPONENT_0_NS << CONNECTION_RESPONSE_TIMEOUT;
	return wait_ns % CONNECTION_EXPONENT_0_NS == 0 && unit > 0 &&
	       unit <= INT64_C(1) << EXPONENT_MAX && !(unit & (unit - 1));
}

static bool is_sound(const struct connection_saved *s)
{
	uint32_t repeated = repeated_type(s->state);

	if (s->state <= CONNECTION_CLOSED || s->state > CONNECTION_SIDR_REQ_RCVD ||
	    s->tries_left > CONNECTION_TRIES || s->ack_timeout > EXPONENT_MAX ||
	    (s->wait_ns && !is_wait(s->wait_ns, false)))
		return false;
	if (!repeated)
		return true;
	return s->type == repeated && is_wait(s->wait_ns, repeated != IBCM_REP) &&
	       s->sent.private_bytes <= mad_private_bytes((enum ibcm_type)repeated) &&
	       s->sent.info_bytes <= IBCM_INFO_BYTES;
}

/* Sets the fields of the repeated message that the connection has, too. */
static void restore_sent(struct connection *c, const struct connection_saved *s)
{
	struct ibcm_message *m = &c->sent;

	*m = (struct ibcm_message){ .service_id = s->sent.service_id, .ca_guid = s->sent.ca_guid };
	if (!repeated_type(s->state))
		return;
	*m = s->sent;
	m->type = (enum ibcm_type)s->type;
	m->transaction = c->transaction;
	m->local_id = c->local_id;
	m->remote_id = c->remote_id;
	if (m->type == IBCM_REQ || m->type == IBCM_SIDR_REQ) {
		m->remote_id = 0;
		m->remote_timeout = m->local_timeout = CONNECTION_RESPONSE_TIMEOUT;
		m->max_tries = CONNECTION_TRIES;
	} else if (m->type == IBCM_DREQ) {
		m->qpn = c->remote_qpn;
	}
}

bool connection_restore(struct connection *c, const struct connection_saved *s, int64_t now_ns)
{
	bool waits = repeated_type(s->state) || s->state == CONNECTION_TIMEWAIT;

	if (s->local_id != c->local_id || !is_sound(s))
		return false;
	c->state = (enum connection_state)s->state;
	c->remote_id = s->remote_id;
	c->local_qpn = s->local_qpn;
	c->remote_qpn = s->remote_qpn;
	c->transaction = s->transaction;
	c->wait_ns = s->wait_ns;
	c->tries_left = s->tries_left;
	c->is_xrc = s->is_xrc != 0;
	c->awaits_ready = s->state == CONNECTION_TIMEWAIT && s->awaits_ready;
	c->ack_timeout = s->ack_timeout;
	c->is_active = s->is_active != 0;
	restore_sent(c, s);
	c->deadline_ns = 0;
	if (waits) {
		c->deadline_ns = s->deadline_ns > 0 ? s->deadline_ns : 1;
		if (c->deadline_ns > now_ns + CONNECTION_DELAY_NS_MAX)
			c->deadline_ns = now_ns + CONNECTION_DELAY_NS_MAX;
	}
	return true;
}
