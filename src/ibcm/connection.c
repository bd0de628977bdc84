/* SPDX-License-Identifier: BSD-2-Clause */
#include "ibcm/connection.h"

#include <errno.h>
#include <string.h>

#define SERVICE_TIMEOUT 24 /* exponent: an MRA gives the user 68 s to answer */

/* Time and tries of a DREQ after connection_abandon, when no user waits for the outcome. */
#define GOODBYE_NS    INT64_C(250000000)
#define GOODBYE_TRIES 12

#define TIMEWAIT_NS_MAX INT64_C(4000000000)

static int64_t exponent_ns(unsigned exponent)
{
	return CONNECTION_EXPONENT_0_NS << (exponent & 31);
}

void connection_init(struct connection *c, const struct connection_env *env, uint32_t local_id)
{
	memset(c, 0, sizeof(*c));
	c->env = env;
	c->local_id = local_id;
	c->transaction = (uint64_t)local_id << 32 | 1;
}

static void raise(struct connection *c, enum connection_event event, const struct ibcm_message *m)
{
	if (!c->abandoned)
		c->env->raise(c, event, m);
}

static struct ibcm_message make(const struct connection *c, enum ibcm_type type)
{
	return (struct ibcm_message){
		.type = type,
		.transaction = c->transaction,
		.local_id = c->local_id,
		.remote_id = c->remote_id,
	};
}

static void send_plain(struct connection *c, enum ibcm_type type)
{
	struct ibcm_message m = make(c, type);

	c->env->send(c, &m);
}

/*
 * In answer to a repeated message alone, as in Linux. An end that has an MRA repeats nothing for
 * more than a minute: it would wait that long after an RTU or a REJ that is lost.
 */
static void send_mra(struct connection *c, enum ibcm_subject subject)
{
	struct ibcm_message m = make(c, IBCM_MRA);

	m.subject = subject;
	m.service_timeout = SERVICE_TIMEOUT;
	c->env->send(c, &m);
}

static void send_rej(struct connection *c, enum ibcm_subject subject, enum ibcm_reason reason)
{
	struct ibcm_message m = make(c, IBCM_REJ);

	m.subject = subject;
	m.reason = reason;
	/* A peer that never answered knows this end only by its GUID and its communication ID. */
	if (reason == IBCM_REASON_TIMEOUT) {
		m.info_bytes = sizeof(c->sent.ca_guid);
		for (unsigned i = 0; i < m.info_bytes; i++)
			m.info[i] = (uint8_t)(c->sent.ca_guid >> (56 - 8 * i));
	}
	c->env->send(c, &m);
}

static bool asks_for_xrc(const struct ibcm_message *request)
{
	return request->transport == IBCM_EXTENDED &&
	       request->extended_transport == IBCM_EXTENDED_XRC;
}

static void close(struct connection *c)
{
	c->state = CONNECTION_CLOSED;
	c->deadline_ns = 0;
}

static void wait_for_answer(struct connection *c, int64_t wait_ns, int64_t now_ns)
{
	c->deadline_ns =
		now_ns + (wait_ns < CONNECTION_DELAY_NS_MAX ? wait_ns : CONNECTION_DELAY_NS_MAX);
}

/* Sends c->sent now, and repeats it until an answer comes or `tries` are used up. */
static void send_until_answered(struct connection *c, enum connection_state state, int64_t wait_ns,
				unsigned tries, int64_t now_ns)
{
	c->state = state;
	c->wait_ns = wait_ns;
	c->tries_left = tries;
	wait_for_answer(c, wait_ns, now_ns);
	c->env->send(c, &c->sent);
}

/* Waits until packets of this connection have left the network (timewait). */
static void enter_timewait(struct connection *c, int64_t now_ns)
{
	int64_t wait_ns = 2 * exponent_ns(c->ack_timeout);

	c->state = CONNECTION_TIMEWAIT;
	c->deadline_ns = now_ns + (wait_ns < TIMEWAIT_NS_MAX ? wait_ns : TIMEWAIT_NS_MAX);
}

/* The user has caught up with a TIMEWAIT that awaits connection_ready, or is gone. */
static void let_timewait_end(struct connection *c)
{
	c->awaits_ready = false;
	if (!c->deadline_ns)
		c->deadline_ns = 1; /* it is over already */
}

/* Calls of the user */

void connection_connect(struct connection *c, const struct ibcm_message *request, int64_t now_ns)
{
	bool is_sidr = request->type == IBCM_SIDR_REQ;

	c->is_active = true;
	c->sent = *request;
	c->sent.transaction = c->transaction;
	c->sent.local_id = c->local_id;
	c->sent.remote_timeout = c->sent.local_timeout = CONNECTION_RESPONSE_TIMEOUT;
	c->sent.max_tries = CONNECTION_TRIES;
	c->local_qpn = request->qpn;
	c->is_xrc = asks_for_xrc(request);
	c->ack_timeout = request->ack_timeout;
	send_until_answered(c, is_sidr ? CONNECTION_SIDR_REQ_SENT : CONNECTION_REQ_SENT,
			    exponent_ns(CONNECTION_RESPONSE_TIMEOUT), CONNECTION_TRIES, now_ns);
}

void connection_on_request(struct connection *c, const struct ibcm_message *request, int64_t now_ns)
{
	c->transaction = request->transaction;
	c->remote_id = request->local_id;
	c->remote_qpn = request->qpn;
	c->is_xrc = asks_for_xrc(request);
	c->ack_timeout = request->ack_timeout;
	c->wait_ns = exponent_ns(request->local_timeout ? request->local_timeout
							: CONNECTION_RESPONSE_TIMEOUT);
	if (request->type == IBCM_SIDR_REQ) {
		c->state = CONNECTION_SIDR_REQ_RCVD;
		c->sent.service_id = request->service_id;
		return;
	}
	c->state = CONNECTION_REQ_RCVD;
}

static void fill_answer(struct connection *c, enum ibcm_type type,
			const struct ibcm_message *answer)
{
	uint64_t service_id = c->sent.service_id;

	c->sent = *answer;
	c->sent.type = type;
	c->sent.transaction = c->transaction;
	c->sent.local_id = c->local_id;
	c->sent.remote_id = c->remote_id;
	c->sent.service_id = service_id;
	c->local_qpn = answer->qpn;
}

/* The REP of an XRC target: it initiates nothing, and receives by SRQs only (IBA annex A14). */
static void fill_xrc_target(struct ibcm_message *rep)
{
	rep->eecn = rep->qpn;
	rep->qpn = 0;
	rep->initiator_depth = 0;
	rep->flow_control = 0;
	rep->has_srq = 1;
}

int connection_accept(struct connection *c, const struct ibcm_message *answer, int64_t now_ns)
{
	if (c->state == CONNECTION_SIDR_REQ_RCVD) {
		fill_answer(c, IBCM_SIDR_REP, answer);
		c->sent.reason = IBCM_SIDR_OK;
		c->env->send(c, &c->sent);
		close(c);
		return 0;
	}
	if (c->state != CONNECTION_REQ_RCVD)
		return -EINVAL;
	fill_answer(c, IBCM_REP, answer);
	if (c->is_xrc)
		fill_xrc_target(&c->sent);
	c->sent.ack_timeout = 0; /* of a REP: Target ACK Delay */
	send_until_answered(c, CONNECTION_REP_SENT, c->wait_ns, CONNECTION_TRIES, now_ns);
	return 0;
}

int connection_reject(struct connection *c, const struct ibcm_message *answer)
{
	switch (c->state) {
	case CONNECTION_SIDR_REQ_RCVD:
		fill_answer(c, IBCM_SIDR_REP, answer);
		c->sent.qpn = 0;
		c->sent.reason = IBCM_SIDR_REJECTED;
		break;
	case CONNECTION_REQ_RCVD:
	case CONNECTION_REP_SENT:
	case CONNECTION_REP_RCVD:
		fill_answer(c, IBCM_REJ, answer);
		c->sent.subject = c->state == CONNECTION_REP_RCVD ? IBCM_ABOUT_REP : IBCM_ABOUT_REQ;
		break;
	case CONNECTION_TIMEWAIT:
		/* The user, whose QP may have failed, does not call connection_ready any more. */
		if (c->awaits_ready)
			let_timewait_end(c);
		return -EINVAL;
	default:
		return -EINVAL;
	}
	c->env->send(c, &c->sent);
	close(c);
	return 0;
}

int connection_ready(struct connection *c)
{
	if (c->awaits_ready) {
		/* The peer waits for no RTU any more. */
		let_timewait_end(c);
		return 0;
	}
	if (c->state != CONNECTION_REP_RCVD)
		return -EINVAL;
	c->state = CONNECTION_ESTABLISHED;
	c->deadline_ns = 0;
	send_plain(c, IBCM_RTU);
	return 0;
}

static void become_established(struct connection *c, const struct ibcm_message *m)
{
	c->state = CONNECTION_ESTABLISHED;
	c->deadline_ns = 0;
	raise(c, CONNECTION_ON_ESTABLISHED, m);
}

int connection_establish(struct connection *c)
{
	if (c->state == CONNECTION_ESTABLISHED)
		return -EISCONN;
	if (c->state != CONNECTION_REP_SENT)
		return -EINVAL;
	become_established(c, NULL);
	return 0;
}

static void send_dreq(struct connection *c, int64_t now_ns)
{
	c->sent = make(c, IBCM_DREQ);
	c->sent.qpn = c->remote_qpn;
	if (c->abandoned)
		send_until_answered(c, CONNECTION_DREQ_SENT, GOODBYE_NS, GOODBYE_TRIES, now_ns);
	else
		send_until_answered(c, CONNECTION_DREQ_SENT,
				    exponent_ns(CONNECTION_RESPONSE_TIMEOUT), CONNECTION_TRIES,
				    now_ns);
}

int connection_disconnect(struct connection *c, int64_t now_ns)
{
	switch (c->state) {
	case CONNECTION_ESTABLISHED:
	case CONNECTION_REP_SENT:
		send_dreq(c, now_ns);
		return 0;
	case CONNECTION_DREQ_RCVD:
		send_plain(c, IBCM_DREP);
		enter_timewait(c, now_ns);
		return 0;
	case CONNECTION_TIMEWAIT:
		if (!c->awaits_ready)
			return -EINVAL;
		let_timewait_end(c);
		return 0;
	default:
		return -EINVAL;
	}
}

void connection_abandon(struct connection *c, int64_t now_ns)
{
	struct ibcm_message none = { .reason = IBCM_REASON_CONSUMER };

	c->abandoned = true;
	switch (c->state) {
	case CONNECTION_REQ_SENT:
		send_rej(c, IBCM_ABOUT_OTHER, IBCM_REASON_TIMEOUT);
		close(c);
		break;
	case CONNECTION_SIDR_REQ_SENT:
		close(c);
		break;
	case CONNECTION_REP_RCVD:
	case CONNECTION_REQ_RCVD:
	case CONNECTION_SIDR_REQ_RCVD:
		connection_reject(c, &none);
		break;
	case CONNECTION_REP_SENT:
	case CONNECTION_ESTABLISHED:
		send_dreq(c, now_ns);
		break;
	case CONNECTION_DREQ_RCVD:
		send_plain(c, IBCM_DREP);
		enter_timewait(c, now_ns);
		break;
	case CONNECTION_DREQ_SENT:
		c->wait_ns = GOODBYE_NS;
		if (c->tries_left > GOODBYE_TRIES)
			c->tries_left = GOODBYE_TRIES;
		if (c->deadline_ns > now_ns + GOODBYE_NS)
			c->deadline_ns = now_ns + GOODBYE_NS;
		break;
	case CONNECTION_TIMEWAIT:
		if (c->awaits_ready)
			let_timewait_end(c);
		break;
	case CONNECTION_CLOSED:
		break;
	}
}

/*
 * Messages of the peer. One that does not fit the state is repeated, late or forged. It changes
 * nothing; the connection answers it if the peer may wait for the answer.
 */

static void on_repeated_req(struct connection *c)
{
	if (c->state == CONNECTION_REQ_RCVD)
		send_mra(c, IBCM_ABOUT_REQ);
	else if (c->state == CONNECTION_REP_SENT)
		c->env->send(c, &c->sent);
}

static void on_rep(struct connection *c, const struct ibcm_message *m)
{
	struct ibcm_message rep = *m;

	if (c->is_xrc)
		rep.qpn = rep.eecn;
	switch (c->state) {
	case CONNECTION_REQ_SENT:
		c->state = CONNECTION_REP_RCVD;
		c->deadline_ns = 0;
		c->remote_id = m->local_id;
		c->remote_qpn = rep.qpn;
		raise(c, CONNECTION_ON_RESPONSE, &rep);
		break;
	case CONNECTION_REP_RCVD:
		send_mra(c, IBCM_ABOUT_REP);
		break;
	case CONNECTION_ESTABLISHED:
		if (m->local_id == c->remote_id)
			send_plain(c, IBCM_RTU);
		break;
	default:
		break;
	}
}

static void on_mra(struct connection *c, const struct ibcm_message *m, int64_t now_ns)
{
	if (!(c->state == CONNECTION_REQ_SENT && m->subject == IBCM_ABOUT_REQ) &&
	    !(c->state == CONNECTION_REP_SENT && m->subject == IBCM_ABOUT_REP))
		return;
	if (c->state == CONNECTION_REQ_SENT)
		c->remote_id = m->local_id;
	wait_for_answer(c, c->wait_ns + exponent_ns(m->service_timeout), now_ns);
}

static void on_rej(struct connection *c, const struct ibcm_message *m, int64_t now_ns)
{
	switch (c->state) {
	case CONNECTION_REQ_RCVD:
		/* The user has not accepted it: connection_accept tells, by its failure. */
		close(c);
		break;
	case CONNECTION_REQ_SENT:
	case CONNECTION_REP_RCVD:
	case CONNECTION_REP_SENT:
		close(c);
		raise(c, CONNECTION_ON_REJECTED, m);
		break;
	case CONNECTION_ESTABLISHED:
		/* For the peer this connection does not exist, or has ended. */
		enter_timewait(c, now_ns);
		raise(c, CONNECTION_ON_DISCONNECTED, m);
		break;
	case CONNECTION_DREQ_SENT:
		enter_timewait(c, now_ns);
		raise(c, CONNECTION_ON_DISCONNECTED, m);
		break;
	default:
		break;
	}
}

static void on_dreq(struct connection *c, const struct ibcm_message *m, int64_t now_ns)
{
	if (m->qpn != c->local_qpn)
		return;
	switch (c->state) {
	case CONNECTION_REP_SENT: /* the RTU was lost */
	case CONNECTION_ESTABLISHED:
		c->transaction = m->transaction;
		c->state = CONNECTION_DREQ_RCVD;
		c->deadline_ns = 0;
		raise(c, CONNECTION_ON_DISCONNECTED, m);
		break;
	case CONNECTION_REP_RCVD:  /* the peer disconnects before it has got the RTU */
	case CONNECTION_DREQ_SENT: /* both ends disconnect at once */
		c->transaction = m->transaction;
		/* It has ended, and not failed: connection_ready is to succeed. */
		c->awaits_ready = c->state == CONNECTION_REP_RCVD;
		send_plain(c, IBCM_DREP);
		enter_timewait(c, now_ns);
		raise(c, CONNECTION_ON_DISCONNECTED, m);
		break;
	case CONNECTION_TIMEWAIT:
		send_plain(c, IBCM_DREP);
		break;
	default:
		break;
	}
}

static void on_sidr_rep(struct connection *c, const struct ibcm_message *m)
{
	if (c->state != CONNECTION_SIDR_REQ_SENT)
		return;
	close(c);
	raise(c, m->reason == IBCM_SIDR_OK ? CONNECTION_ON_RESPONSE : CONNECTION_ON_REJECTED, m);
}

/* Refuses: there is no alternate path (IBA 12.8). */
static void on_lap(struct connection *c, const struct ibcm_message *m)
{
	struct ibcm_message answer = make(c, IBCM_APR);

	if (c->state != CONNECTION_ESTABLISHED)
		return;
	answer.transaction = m->transaction;
	answer.reason = IBCM_ALTERNATE_UNSUPPORTED;
	c->env->send(c, &answer);
}

void connection_on_message(struct connection *c, const struct ibcm_message *m, int64_t now_ns)
{
	switch (m->type) {
	case IBCM_REQ:
		on_repeated_req(c);
		break;
	case IBCM_MRA:
		on_mra(c, m, now_ns);
		break;
	case IBCM_REJ:
		on_rej(c, m, now_ns);
		break;
	case IBCM_REP:
		on_rep(c, m);
		break;
	case IBCM_RTU:
		if (c->state == CONNECTION_REP_SENT)
			become_established(c, m);
		break;
	case IBCM_DREQ:
		on_dreq(c, m, now_ns);
		break;
	case IBCM_DREP:
		if (c->state == CONNECTION_DREQ_SENT) {
			enter_timewait(c, now_ns);
			raise(c, CONNECTION_ON_DISCONNECTED, m);
		}
		break;
	case IBCM_SIDR_REP:
		on_sidr_rep(c, m);
		break;
	case IBCM_LAP:
		on_lap(c, m);
		break;
	case IBCM_SIDR_REQ:
	case IBCM_APR:
		break;
	}
}

static void give_up(struct connection *c, int64_t now_ns)
{
	switch (c->state) {
	case CONNECTION_REQ_SENT:
		send_rej(c, IBCM_ABOUT_OTHER, IBCM_REASON_TIMEOUT);
		break;
	case CONNECTION_REP_SENT:
		send_rej(c, IBCM_ABOUT_REP, IBCM_REASON_TIMEOUT);
		break;
	case CONNECTION_DREQ_SENT:
		enter_timewait(c, now_ns);
		raise(c, CONNECTION_ON_DISCONNECTED, NULL);
		return;
	default:
		break;
	}
	close(c);
	raise(c, CONNECTION_ON_UNREACHABLE, NULL);
}

void connection_on_time(struct connection *c, int64_t now_ns)
{
	if (!c->deadline_ns || c->deadline_ns > now_ns)
		return;
	if (c->state == CONNECTION_TIMEWAIT) {
		if (c->awaits_ready) {
			/* If it closed, connection_ready would fail. */
			c->deadline_ns = 0;
			return;
		}
		close(c);
		raise(c, CONNECTION_ON_TIMEWAIT_EXIT, NULL);
		return;
	}
	if (!c->tries_left) {
		give_up(c, now_ns);
		return;
	}
	c->tries_left--;
	wait_for_answer(c, c->wait_ns, now_ns);
	c->env->send(c, &c->sent);
}

void connection_resend(struct connection *c)
{
	switch (c->state) {
	case CONNECTION_REQ_SENT:
	case CONNECTION_REP_SENT:
	case CONNECTION_DREQ_SENT:
	case CONNECTION_SIDR_REQ_SENT:
		c->env->send(c, &c->sent);
		break;
	case CONNECTION_CLOSED:
		if (c->sent.type == IBCM_REJ)
			c->env->send(c, &c->sent);
		break;
	case CONNECTION_ESTABLISHED:
		/* A peer that got an MRA does not repeat its REP for more than a minute. */
		if (c->is_active)
			send_plain(c, IBCM_RTU);
		break;
	default:
		break;
	}
}

bool connection_answer_stray(const struct ibcm_message *m, enum ibcm_reason reason,
			     struct ibcm_message *answer)
{
	*answer = (struct ibcm_message){
		.transaction = m->transaction,
		.local_id = m->remote_id,
		.remote_id = m->local_id,
	};
	switch (m->type) {
	case IBCM_REQ:
		answer->type = IBCM_REJ;
		answer->subject = IBCM_ABOUT_REQ;
		answer->reason = reason;
		return true;
	case IBCM_REP:
		answer->type = IBCM_REJ;
		answer->subject = IBCM_ABOUT_REP;
		answer->reason = IBCM_REASON_INVALID_ID;
		return true;
	case IBCM_DREQ:
		answer->type = IBCM_DREP;
		return true;
	case IBCM_LAP:
		answer->type = IBCM_APR;
		answer->reason = IBCM_ALTERNATE_INVALID_ID;
		return true;
	case IBCM_SIDR_REQ:
		answer->type = IBCM_SIDR_REP;
		answer->local_id = 0;
		answer->reason = reason == IBCM_REASON_NO_LISTENER ? IBCM_SIDR_NO_LISTENER
								   : IBCM_SIDR_REJECTED;
		answer->service_id = m->service_id;
		return true;
	default:
		return false;
	}
}
