#include "ibcm/saved.h"

#include "ibcm/mad.h"

#define WAIT_NS_MAX  INT64_C(10000000000)
#define DELAY_NS_MAX INT64_C(150000000000) /* an answer, and the most that an MRA adds */
#define TRIES_MAX    15

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
		.has_mra = c->has_mra,
		.ack_timeout = c->ack_timeout,
		.sent = c->sent,
	};
}

/* What a connection in this state repeats until it is answered. 0: nothing. */
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

static bool is_sound(const struct connection_saved *s)
{
	uint32_t repeated = repeated_type(s->state);

	if (s->state <= CONNECTION_CLOSED || s->state > CONNECTION_SIDR_REQ_RCVD ||
	    s->tries_left > TRIES_MAX || s->wait_ns < 0 || s->wait_ns > WAIT_NS_MAX)
		return false;
	if (!repeated)
		return true;
	return s->type == repeated && s->sent.private_bytes <= mad_private_bytes(s->sent.type) &&
	       s->sent.info_bytes <= IBCM_INFO_BYTES;
}

bool connection_restore(struct connection *c, const struct connection_saved *s, int64_t now_ns)
{
	bool waits = repeated_type(s->state) || s->state == CONNECTION_TIMEWAIT;

	if (!is_sound(s))
		return false;
	c->state = (enum connection_state)s->state;
	c->remote_id = s->remote_id;
	c->local_qpn = s->local_qpn;
	c->remote_qpn = s->remote_qpn;
	c->transaction = s->transaction;
	c->wait_ns = s->wait_ns;
	c->tries_left = s->tries_left;
	c->is_xrc = s->is_xrc != 0;
	c->has_mra = s->has_mra != 0;
	c->ack_timeout = s->ack_timeout;
	c->sent = s->sent;
	c->sent.type = (enum ibcm_type)s->type;
	c->deadline_ns = 0;
	if (waits) {
		c->deadline_ns = s->deadline_ns > 0 ? s->deadline_ns : 1;
		if (c->deadline_ns > now_ns + DELAY_NS_MAX)
			c->deadline_ns = now_ns + DELAY_NS_MAX;
	}
	return true;
}
