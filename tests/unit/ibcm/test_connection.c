/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a connection with a virtual clock, and a network that may lose, repeat and forge
 * messages.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ibcm/connection.h"

#define S   INT64_C(1000000000)
#define MAX 64

struct end {
	struct connection c; /* first */
	enum connection_event events[MAX];
	unsigned event_count;
	uint16_t reason;	      /* of the last message that came with an event */
	uint32_t qpn;		      /* the same */
	struct ibcm_message out[MAX]; /* sent, not delivered */
	unsigned out_count, sent;
};

static int64_t now_ns;

static void on_send(struct connection *c, const struct ibcm_message *m)
{
	struct end *e = (struct end *)c;

	assert_true(e->out_count < MAX);
	e->out[e->out_count++] = *m;
	e->sent++;
}

static void on_raise(struct connection *c, enum connection_event event,
		     const struct ibcm_message *m)
{
	struct end *e = (struct end *)c;

	assert_true(e->event_count < MAX);
	e->events[e->event_count++] = event;
	e->reason = m ? m->reason : 0;
	e->qpn = m ? m->qpn : 0;
}

static const struct connection_env env = { on_send, on_raise };

struct pair {
	struct end a, b; /* a is active */
};

static void init(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	now_ns = S;
	connection_init(&p->a.c, &env, 11);
	connection_init(&p->b.c, &env, 22);
}

/* The oldest message of an end to the other. */
static void carry(struct end *from, struct end *to)
{
	struct ibcm_message m = from->out[0];

	assert_true(from->out_count > 0);
	memmove(from->out, from->out + 1, --from->out_count * sizeof(m));
	if (to->c.state == CONNECTION_CLOSED && (m.type == IBCM_REQ || m.type == IBCM_SIDR_REQ))
		connection_on_request(&to->c, &m, now_ns);
	else
		connection_on_message(&to->c, &m, now_ns);
}

static void carry_all(struct pair *p)
{
	while (p->a.out_count || p->b.out_count) {
		if (p->a.out_count)
			carry(&p->a, &p->b);
		if (p->b.out_count)
			carry(&p->b, &p->a);
	}
}

static void lose(struct end *e)
{
	e->out_count = 0;
}

static void pass(struct end *e, int64_t ns)
{
	now_ns += ns;
	connection_on_time(&e->c, now_ns);
}

static void connect_a(struct pair *p, enum ibcm_type type)
{
	struct ibcm_message req = { .type = type, .qpn = 100, .psn = 1, .ack_timeout = 17 };

	connection_connect(&p->a.c, &req, now_ns);
}

/* Until the active end has the REP. */
static void ask_and_accept(struct pair *p)
{
	struct ibcm_message rep = { .qpn = 200, .psn = 2 };

	init(p);
	connect_a(p, IBCM_REQ);
	carry_all(p);
	assert_int_equal(p->b.c.state, CONNECTION_REQ_RCVD);
	assert_int_equal(connection_accept(&p->b.c, &rep, now_ns), 0);
	carry_all(p);
	assert_int_equal(p->a.events[0], CONNECTION_ON_RESPONSE);
}

static void establish(struct pair *p)
{
	ask_and_accept(p);
	assert_int_equal(connection_ready(&p->a.c), 0);
	carry_all(p);
	assert_int_equal(p->a.c.state, CONNECTION_ESTABLISHED);
	assert_int_equal(p->b.c.state, CONNECTION_ESTABLISHED);
	assert_int_equal(p->b.events[0], CONNECTION_ON_ESTABLISHED);
	p->a.event_count = p->b.event_count = 0;
}

static void test_connects_and_disconnects(void **state)
{
	struct pair p;

	establish(&p);
	assert_int_equal(p.a.c.deadline_ns, 0);
	assert_int_equal(connection_disconnect(&p.a.c, now_ns), 0);
	carry_all(&p);
	assert_int_equal(p.b.events[0], CONNECTION_ON_DISCONNECTED);
	assert_int_equal(p.a.event_count, 0);
	assert_int_equal(connection_disconnect(&p.b.c, now_ns), 0);
	carry_all(&p);
	assert_int_equal(p.a.events[0], CONNECTION_ON_DISCONNECTED);
	assert_int_equal(p.a.c.state, CONNECTION_TIMEWAIT);
	pass(&p.a, 5 * S);
	pass(&p.b, 0);
	assert_int_equal(p.a.events[1], CONNECTION_ON_TIMEWAIT_EXIT);
	assert_int_equal(p.b.events[1], CONNECTION_ON_TIMEWAIT_EXIT);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);
	assert_int_equal(p.b.c.state, CONNECTION_CLOSED);
}

static void test_both_disconnect_at_once(void **state)
{
	struct pair p;

	establish(&p);
	connection_disconnect(&p.a.c, now_ns);
	connection_disconnect(&p.b.c, now_ns);
	carry_all(&p);
	assert_int_equal(p.a.c.state, CONNECTION_TIMEWAIT);
	assert_int_equal(p.b.c.state, CONNECTION_TIMEWAIT);
	assert_int_equal(p.a.event_count, 1);
	assert_int_equal(p.b.event_count, 1);
}

/* Each message lost once: all is repeated until it arrives. */
static void test_repeats_what_was_lost(void **state)
{
	struct ibcm_message rep = { .qpn = 200 };
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	lose(&p.a);
	pass(&p.a, 5 * S);
	carry(&p.a, &p.b);
	pass(&p.a, 5 * S);
	carry(&p.a, &p.b); /* a REQ that was seen before */
	assert_int_equal(p.b.out[0].type, IBCM_MRA);
	lose(&p.b); /* the MRA */
	pass(&p.a, 5 * S);
	carry_all(&p); /* the MRA again */
	connection_accept(&p.b.c, &rep, now_ns);
	lose(&p.b);
	pass(&p.b, 5 * S);
	carry(&p.b, &p.a);
	connection_ready(&p.a.c);
	lose(&p.a); /* the RTU */
	pass(&p.b, 5 * S);
	carry_all(&p);
	assert_int_equal(p.b.c.state, CONNECTION_ESTABLISHED);
	assert_int_equal(p.a.event_count, 1);
	assert_int_equal(p.b.event_count, 1);
	connection_disconnect(&p.a.c, now_ns);
	lose(&p.a);
	pass(&p.a, 5 * S);
	carry_all(&p);
	connection_disconnect(&p.b.c, now_ns);
	lose(&p.b); /* the DREP */
	pass(&p.a, 5 * S - 1);
	carry_all(&p);
	assert_int_equal(p.a.c.state, CONNECTION_TIMEWAIT);
}

/* What is lost costs one CM response time-out, though nothing else was lost. */
static void test_one_loss_costs_seconds(void **state)
{
	struct ibcm_message no = { .reason = IBCM_REASON_CONSUMER };
	struct pair p;

	ask_and_accept(&p);
	assert_int_equal(connection_ready(&p.a.c), 0);
	lose(&p.a); /* the RTU */
	pass(&p.b, 5 * S);
	carry_all(&p);
	assert_int_equal(p.b.c.state, CONNECTION_ESTABLISHED);

	init(&p);
	connect_a(&p, IBCM_REQ);
	carry_all(&p);
	assert_int_equal(connection_reject(&p.b.c, &no), 0);
	lose(&p.b); /* the REJ */
	pass(&p.a, 5 * S);
	assert_int_equal(p.a.out_count, 1);
	assert_int_equal(p.a.out[0].type, IBCM_REQ);
}

static void test_gives_up(void **state)
{
	struct pair p;
	unsigned tries = 0;

	init(&p);
	connect_a(&p, IBCM_REQ);
	while (p.a.c.state == CONNECTION_REQ_SENT && tries++ < 100) {
		lose(&p.a);
		pass(&p.a, 5 * S);
	}
	assert_int_equal(tries, 16);
	assert_int_equal(p.a.events[0], CONNECTION_ON_UNREACHABLE);
	assert_int_equal(p.a.out[0].type, IBCM_REJ);
	assert_int_equal(p.a.out[0].reason, IBCM_REASON_TIMEOUT);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);
}

static void test_a_slow_user_is_waited_for(void **state)
{
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	carry_all(&p);
	pass(&p.a, 5 * S);
	carry_all(&p);
	assert_true(p.a.c.deadline_ns > now_ns + 60 * S);
	pass(&p.a, 60 * S);
	assert_int_equal(p.a.sent, 2);
}

/* The same of the active end, between REP and RTU. */
static void test_a_slow_active_user_is_waited_for(void **state)
{
	struct pair p;

	ask_and_accept(&p);
	pass(&p.b, 5 * S);
	carry_all(&p);
	assert_true(p.b.c.deadline_ns > now_ns + 60 * S);
	pass(&p.b, 60 * S);
	assert_int_equal(p.b.sent, 2);
	assert_int_equal(p.a.event_count, 1);
}

/* Time-outs of a peer are up to 2.4 hours; the repetition comes sooner. */
static void test_not_for_hours(void **state)
{
	struct ibcm_message rep = { .qpn = 200 }, late;
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	p.a.out[0].local_timeout = 31;
	carry(&p.a, &p.b);
	pass(&p.a, 5 * S);
	carry(&p.a, &p.b);
	p.b.out[0].service_timeout = 31;
	late = p.b.out[0];
	carry(&p.b, &p.a);
	pass(&p.a, CONNECTION_DELAY_NS_MAX);
	assert_int_equal(p.a.sent, 3);
	assert_int_equal(connection_accept(&p.b.c, &rep, now_ns), 0);
	for (unsigned i = 1; i < 3; i++) {
		pass(&p.b, CONNECTION_DELAY_NS_MAX);
		assert_int_equal(p.b.sent, 2 + i);
	}
	late.subject = IBCM_ABOUT_REP;
	connection_on_message(&p.b.c, &late, now_ns);
	pass(&p.b, CONNECTION_DELAY_NS_MAX);
	assert_int_equal(p.b.sent, 5);
}

static void test_reject(void **state)
{
	struct ibcm_message no = { .reason = IBCM_REASON_CONSUMER };
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	carry_all(&p);
	assert_int_equal(connection_reject(&p.b.c, &no), 0);
	carry_all(&p);
	assert_int_equal(p.a.events[0], CONNECTION_ON_REJECTED);
	assert_int_equal(p.a.reason, IBCM_REASON_CONSUMER);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);
	assert_int_equal(p.b.c.state, CONNECTION_CLOSED);
	assert_int_equal(p.b.event_count, 0);
}

static void test_refused_by_nobody(void **state)
{
	struct ibcm_message answer;
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	assert_true(connection_answer_stray(&p.a.out[0], IBCM_REASON_NO_LISTENER, &answer));
	connection_on_message(&p.a.c, &answer, now_ns);
	assert_int_equal(p.a.events[0], CONNECTION_ON_REJECTED);
	assert_int_equal(p.a.reason, IBCM_REASON_NO_LISTENER);
	assert_false(connection_answer_stray(&answer, IBCM_REASON_NO_LISTENER, &p.a.out[1]));
}

/* A listener without room is one all the same. */
static void test_refused_datagrams(void **state)
{
	struct ibcm_message ask = { .type = IBCM_SIDR_REQ, .local_id = 11, .service_id = 7 };
	struct ibcm_message answer;

	assert_true(connection_answer_stray(&ask, IBCM_REASON_NO_LISTENER, &answer));
	assert_int_equal(answer.type, IBCM_SIDR_REP);
	assert_int_equal(answer.remote_id, 11);
	assert_int_equal(answer.reason, IBCM_SIDR_NO_LISTENER);
	assert_true(connection_answer_stray(&ask, IBCM_REASON_CONSUMER, &answer));
	assert_int_equal(answer.reason, IBCM_SIDR_REJECTED);
}

static void test_dreq_before_rtu(void **state)
{
	struct pair p;

	ask_and_accept(&p);
	connection_ready(&p.a.c);
	lose(&p.a);
	connection_disconnect(&p.a.c, now_ns);
	carry_all(&p);
	assert_int_equal(p.b.event_count, 1);
	assert_int_equal(p.b.events[0], CONNECTION_ON_DISCONNECTED);
}

/*
 * The passive end accepts and dies while the program of the active one has not looked yet: it has
 * had a connection, which has ended.
 */
static void test_dreq_before_ready(void **state)
{
	struct pair p;

	ask_and_accept(&p);
	assert_int_equal(p.a.c.state, CONNECTION_REP_RCVD);
	connection_abandon(&p.b.c, now_ns);
	carry_all(&p);
	assert_int_equal(p.a.event_count, 2);
	assert_int_equal(p.a.events[1], CONNECTION_ON_DISCONNECTED);
	assert_int_equal(p.b.c.state, CONNECTION_TIMEWAIT);
	assert_int_equal(connection_ready(&p.a.c), 0);
	assert_int_equal(p.a.out_count, 0);
	assert_int_equal(p.a.c.state, CONNECTION_TIMEWAIT);
	assert_int_equal(connection_ready(&p.a.c), -EINVAL); /* once */
	pass(&p.a, 0);
	assert_int_equal(p.a.c.state, CONNECTION_TIMEWAIT); /* which lasts as long as ever */
	pass(&p.a, 5 * S);
	assert_int_equal(p.a.event_count, 3);
	assert_int_equal(p.a.events[2], CONNECTION_ON_TIMEWAIT_EXIT);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);
}

/* Up to a TIMEWAIT whose time is over, and whose user has not called connection_ready. */
static void outlast_timewait(struct pair *p)
{
	ask_and_accept(p);
	assert_int_equal(connection_disconnect(&p->b.c, now_ns), 0);
	lose(&p->b);
	pass(&p->b, 5 * S); /* the DREQ again */
	carry_all(p);
	assert_int_equal(p->b.events[0], CONNECTION_ON_DISCONNECTED);
	pass(&p->a, 5 * S);
	pass(&p->a, 60 * S);
	assert_int_equal(p->a.c.state, CONNECTION_TIMEWAIT);
	assert_int_equal(p->a.event_count, 2);
}

/* A program may look much later than TIMEWAIT lasts. */
static void test_timewait_waits_for_ready(void **state)
{
	struct ibcm_message dreq = {
		.type = IBCM_DREQ, .local_id = 22, .remote_id = 11, .qpn = 100
	};
	struct ibcm_message no = { .reason = IBCM_REASON_CONSUMER };
	struct pair p;

	outlast_timewait(&p);
	/* Meanwhile a DREP that was lost is said again. */
	connection_on_message(&p.a.c, &dreq, now_ns);
	assert_int_equal(p.a.out[0].type, IBCM_DREP);
	assert_int_equal(p.a.event_count, 2);
	assert_int_equal(connection_ready(&p.a.c), 0);
	pass(&p.a, 0);
	assert_int_equal(p.a.events[2], CONNECTION_ON_TIMEWAIT_EXIT);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);

	/* A user that has seen the end alone, and disconnects. */
	outlast_timewait(&p);
	assert_int_equal(connection_disconnect(&p.a.c, now_ns), 0);
	assert_int_equal(connection_ready(&p.a.c), -EINVAL);
	assert_int_equal(connection_disconnect(&p.a.c, now_ns), -EINVAL);
	pass(&p.a, 0);
	assert_int_equal(p.a.events[2], CONNECTION_ON_TIMEWAIT_EXIT);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);

	/* A user that cannot go on, as its QP has failed. */
	outlast_timewait(&p);
	assert_int_equal(connection_reject(&p.a.c, &no), -EINVAL);
	assert_int_equal(p.a.out_count, 0);
	assert_int_equal(connection_ready(&p.a.c), -EINVAL);
	pass(&p.a, 0);
	assert_int_equal(p.a.events[2], CONNECTION_ON_TIMEWAIT_EXIT);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);

	/* A user that goes away. */
	outlast_timewait(&p);
	connection_abandon(&p.a.c, now_ns);
	pass(&p.a, 0);
	assert_int_equal(p.a.event_count, 2);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);
}

/* Linux finds the connection of such a refusal by the GUID in it, and by nothing else. */
static void test_who_gives_up_names_itself(void **state)
{
	static const uint8_t guid[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct ibcm_message req = { .type = IBCM_REQ, .ca_guid = 0x0102030405060708 };
	struct pair p;

	init(&p);
	connection_connect(&p.a.c, &req, now_ns);
	lose(&p.a);
	connection_abandon(&p.a.c, now_ns);
	assert_int_equal(p.a.out[0].type, IBCM_REJ);
	assert_int_equal(p.a.out[0].reason, IBCM_REASON_TIMEOUT);
	assert_int_equal(p.a.out[0].info_bytes, sizeof(guid));
	assert_memory_equal(p.a.out[0].info, guid, sizeof(guid));
}

static void test_data_before_rtu(void **state)
{
	struct ibcm_message rep = { .qpn = 200 };
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	carry_all(&p);
	connection_accept(&p.b.c, &rep, now_ns);
	assert_int_equal(connection_establish(&p.b.c), 0);
	assert_int_equal(p.b.events[0], CONNECTION_ON_ESTABLISHED);
	assert_int_equal(connection_establish(&p.b.c), -EISCONN);
	carry_all(&p);
	connection_ready(&p.a.c);
	carry_all(&p);
	assert_int_equal(p.b.event_count, 1);
}

/* A DREQ for another QP is another connection's, or forged. */
static void test_dreq_names_the_qp(void **state)
{
	struct ibcm_message dreq = {
		.type = IBCM_DREQ, .local_id = 22, .remote_id = 11, .qpn = 101
	};
	struct pair p;

	establish(&p);
	connection_on_message(&p.a.c, &dreq, now_ns);
	assert_int_equal(p.a.c.state, CONNECTION_ESTABLISHED);
	dreq.qpn = 100;
	connection_on_message(&p.a.c, &dreq, now_ns);
	assert_int_equal(p.a.c.state, CONNECTION_DREQ_RCVD);
}

/*
 * The peer takes its request back, or is killed, before the user has accepted: the user learns it
 * when it does.
 */
static void test_taken_back_before_it_is_accepted(void **state)
{
	struct ibcm_message rep = { .qpn = 200 };
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	carry_all(&p);
	assert_int_equal(p.b.c.state, CONNECTION_REQ_RCVD);
	connection_abandon(&p.a.c, now_ns);
	assert_int_equal(p.a.out[0].type, IBCM_REJ);
	carry_all(&p);
	assert_int_equal(p.b.event_count, 0);
	assert_int_equal(p.b.c.state, CONNECTION_CLOSED);
	assert_int_equal(connection_accept(&p.b.c, &rep, now_ns), -EINVAL);
	assert_int_equal(connection_reject(&p.b.c, &rep), -EINVAL);
	assert_int_equal(p.b.out_count, 0);
}

static void test_abandoned_in_every_state(void **state)
{
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_REQ);
	carry_all(&p);
	connection_abandon(&p.a.c, now_ns);
	carry_all(&p);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);
	assert_int_equal(p.b.c.state, CONNECTION_CLOSED);
	assert_int_equal(p.b.event_count, 0);

	init(&p);
	connect_a(&p, IBCM_REQ);
	carry_all(&p);
	connection_abandon(&p.b.c, now_ns);
	carry_all(&p);
	assert_int_equal(p.a.events[0], CONNECTION_ON_REJECTED);

	ask_and_accept(&p);
	connection_abandon(&p.a.c, now_ns);
	carry_all(&p);
	assert_int_equal(p.b.events[0], CONNECTION_ON_REJECTED);

	establish(&p);
	connection_abandon(&p.a.c, now_ns);
	carry_all(&p);
	assert_int_equal(p.b.events[0], CONNECTION_ON_DISCONNECTED);
	for (int i = 0; i < 40 && p.a.c.state != CONNECTION_CLOSED; i++) {
		lose(&p.a);
		pass(&p.a, 5 * S);
	}
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);
	assert_int_equal(p.a.event_count, 0);
}

/* There is no other path to fall back on, and the other end is told so. */
static void test_no_alternate_path(void **state)
{
	struct ibcm_message lap = {
		.type = IBCM_LAP, .transaction = 77, .local_id = 11, .remote_id = 22
	};
	struct ibcm_message answer;
	struct pair p;

	establish(&p);
	connection_on_message(&p.b.c, &lap, now_ns);
	assert_int_equal(p.b.out_count, 1);
	assert_int_equal(p.b.out[0].type, IBCM_APR);
	assert_int_equal(p.b.out[0].transaction, 77);
	assert_int_equal(p.b.out[0].remote_id, 11);
	assert_int_equal(p.b.out[0].reason, IBCM_ALTERNATE_UNSUPPORTED);
	carry_all(&p);
	assert_int_equal(p.a.c.state, CONNECTION_ESTABLISHED);
	assert_int_equal(p.a.event_count + p.b.event_count, 0);
	assert_true(connection_answer_stray(&lap, 0, &answer));
	assert_int_equal(answer.type, IBCM_APR);
	assert_int_equal(answer.reason, IBCM_ALTERNATE_INVALID_ID);
	lap.type = IBCM_APR;
	assert_false(connection_answer_stray(&lap, 0, &answer));
}

static void test_lookup_of_a_ud_qp(void **state)
{
	struct ibcm_message yes = { .qpn = 300, .qkey = 7 }, no = { .reason = 28 };
	struct pair p;

	init(&p);
	connect_a(&p, IBCM_SIDR_REQ);
	carry_all(&p);
	assert_int_equal(p.b.c.state, CONNECTION_SIDR_REQ_RCVD);
	assert_int_equal(connection_accept(&p.b.c, &yes, now_ns), 0);
	assert_int_equal(p.b.out[0].qpn, 300);
	carry_all(&p);
	assert_int_equal(p.a.events[0], CONNECTION_ON_RESPONSE);
	assert_int_equal(p.a.c.state, CONNECTION_CLOSED);

	init(&p);
	connect_a(&p, IBCM_SIDR_REQ);
	carry_all(&p);
	assert_int_equal(connection_reject(&p.b.c, &no), 0);
	carry_all(&p);
	assert_int_equal(p.a.events[0], CONNECTION_ON_REJECTED);
	assert_int_equal(p.a.reason, IBCM_SIDR_REJECTED);
}

/* The target's number has a field of its own; both ends get the other's number. */
static void test_xrc(void **state)
{
	struct ibcm_message req = { .type = IBCM_REQ,
				    .qpn = 100,
				    .transport = IBCM_EXTENDED,
				    .extended_transport = IBCM_EXTENDED_XRC };
	struct ibcm_message rep = { .qpn = 200, .initiator_depth = 4, .flow_control = 1 };
	struct pair p;

	init(&p);
	connection_connect(&p.a.c, &req, now_ns);
	carry_all(&p);
	assert_int_equal(connection_accept(&p.b.c, &rep, now_ns), 0);
	assert_int_equal(p.b.out[0].qpn, 0);
	assert_int_equal(p.b.out[0].eecn, 200);
	assert_int_equal(p.b.out[0].has_srq, 1);
	assert_int_equal(p.b.out[0].initiator_depth + p.b.out[0].flow_control, 0);
	carry_all(&p);
	assert_int_equal(p.a.qpn, 200);
	assert_int_equal(connection_ready(&p.a.c), 0);
	carry_all(&p);
	assert_int_equal(connection_disconnect(&p.a.c, now_ns), 0);
	assert_int_equal(p.a.out[0].qpn, 200);
	carry_all(&p);
	assert_int_equal(p.b.c.state, CONNECTION_DREQ_RCVD);
}

static void test_out_of_turn(void **state)
{
	struct ibcm_message none = { .qpn = 0 };
	struct pair p;

	init(&p);
	assert_int_equal(connection_accept(&p.a.c, &none, now_ns), -EINVAL);
	assert_int_equal(connection_reject(&p.a.c, &none), -EINVAL);
	assert_int_equal(connection_ready(&p.a.c), -EINVAL);
	assert_int_equal(connection_establish(&p.a.c), -EINVAL);
	assert_int_equal(connection_disconnect(&p.a.c, now_ns), -EINVAL);
	establish(&p);
	assert_int_equal(connection_accept(&p.b.c, &none, now_ns), -EINVAL);
	assert_int_equal(connection_ready(&p.a.c), -EINVAL);
	assert_int_equal(p.a.out_count + p.b.out_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connects_and_disconnects),
		cmocka_unit_test(test_both_disconnect_at_once),
		cmocka_unit_test(test_repeats_what_was_lost),
		cmocka_unit_test(test_one_loss_costs_seconds),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_a_slow_user_is_waited_for),
		cmocka_unit_test(test_a_slow_active_user_is_waited_for),
		cmocka_unit_test(test_not_for_hours),
		cmocka_unit_test(test_reject),
		cmocka_unit_test(test_refused_by_nobody),
		cmocka_unit_test(test_refused_datagrams),
		cmocka_unit_test(test_dreq_before_rtu),
		cmocka_unit_test(test_dreq_before_ready),
		cmocka_unit_test(test_timewait_waits_for_ready),
		cmocka_unit_test(test_who_gives_up_names_itself),
		cmocka_unit_test(test_data_before_rtu),
		cmocka_unit_test(test_dreq_names_the_qp),
		cmocka_unit_test(test_taken_back_before_it_is_accepted),
		cmocka_unit_test(test_abandoned_in_every_state),
		cmocka_unit_test(test_no_alternate_path),
		cmocka_unit_test(test_lookup_of_a_ud_qp),
		cmocka_unit_test(test_xrc),
		cmocka_unit_test(test_out_of_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
