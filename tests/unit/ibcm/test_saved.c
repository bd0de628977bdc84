/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection goes on from its saved fields, and from no others than a connection can have. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ibcm/saved.h"

#define NOW_NS	 INT64_C(1000000000000)
#define LOCAL_ID 17u

static struct ibcm_message sent;
static unsigned sent_count;

static void on_send(struct connection *c, const struct ibcm_message *m)
{
	sent = *m;
	sent_count++;
}

static void on_raise(struct connection *c, enum connection_event event,
		     const struct ibcm_message *m)
{
}

static const struct connection_env env = { .send = on_send, .raise = on_raise };

static const struct ibcm_message request = { .type = IBCM_REQ,
					     .local_id = 5,
					     .transaction = 77,
					     .qpn = 9,
					     .local_timeout = 24,
					     .ack_timeout = 14 };
static const struct ibcm_message answer = { .qpn = 6, .private_bytes = 3, .private_data = "abc" };

/* In the state, by the calls that lead there. */
static void bring(struct connection *c, enum connection_state state)
{
	struct ibcm_message m = { .type = IBCM_REQ, .qpn = 6, .ack_timeout = 14 };
	struct ibcm_message rep = { .type = IBCM_REP, .local_id = 5, .qpn = 9 };

	connection_init(c, &env, LOCAL_ID);
	switch (state) {
	case CONNECTION_SIDR_REQ_SENT:
		m.type = IBCM_SIDR_REQ;
		connection_connect(c, &m, NOW_NS);
		break;
	case CONNECTION_REQ_SENT:
	case CONNECTION_REP_RCVD:
	case CONNECTION_ESTABLISHED:
	case CONNECTION_DREQ_SENT:
	case CONNECTION_TIMEWAIT:
		connection_connect(c, &m, NOW_NS);
		if (state == CONNECTION_REQ_SENT)
			break;
		connection_on_message(c, &rep, NOW_NS);
		if (state != CONNECTION_REP_RCVD)
			connection_ready(c);
		if (state == CONNECTION_DREQ_SENT || state == CONNECTION_TIMEWAIT)
			connection_disconnect(c, NOW_NS);
		rep.type = IBCM_DREP;
		if (state == CONNECTION_TIMEWAIT)
			connection_on_message(c, &rep, NOW_NS);
		break;
	default:
		m = request;
		m.type = state == CONNECTION_SIDR_REQ_RCVD ? IBCM_SIDR_REQ : IBCM_REQ;
		connection_on_request(c, &m, NOW_NS);
		if (state == CONNECTION_REP_SENT || state == CONNECTION_DREQ_RCVD)
			connection_accept(c, &answer, NOW_NS);
		m = (struct ibcm_message){ .type = IBCM_DREQ, .qpn = 6 };
		if (state == CONNECTION_DREQ_RCVD)
			connection_on_message(c, &m, NOW_NS);
		break;
	}
	assert_int_equal(c->state, state);
}

static bool restores(const struct connection_saved *saved, struct connection *c)
{
	connection_init(c, &env, LOCAL_ID);
	return connection_restore(c, saved, NOW_NS);
}

/*
 * A restored connection behaves like the saved one: it repeats the same messages at the same time.
 */
static void every_state_comes_back(void **state)
{
	for (enum connection_state s = CONNECTION_REQ_SENT; s <= CONNECTION_SIDR_REQ_RCVD; s++) {
		struct connection before, after;
		struct connection_saved saved, again;
		struct ibcm_message first;
		unsigned count;

		bring(&before, s);
		connection_save(&before, &saved);
		connection_init(&after, &env, LOCAL_ID);
		assert_true(connection_restore(&after, &saved, NOW_NS));
		assert_int_equal(after.state, s);
		assert_true(after.deadline_ns == before.deadline_ns);
		assert_int_equal(after.remote_id, before.remote_id);
		assert_int_equal(after.remote_qpn, before.remote_qpn);
		assert_int_equal(after.ack_timeout, before.ack_timeout);
		connection_save(&after, &again);
		assert_int_equal(again.tries_left, saved.tries_left);
		assert_true(again.wait_ns == saved.wait_ns &&
			    again.transaction == saved.transaction);
		sent_count = 0;
		connection_resend(&before);
		count = sent_count;
		first = sent;
		connection_resend(&after);
		assert_int_equal(sent_count, 2 * count);
		if (count)
			assert_memory_equal(&sent, &first, sizeof(sent));
		/* Twice in a row, too. */
		assert_true(restores(&again, &after));
		connection_resend(&after);
		assert_int_equal(sent_count, 3 * count);
	}
}

static void save(enum connection_state state, struct connection_saved *out)
{
	struct connection c;

	bring(&c, state);
	connection_save(&c, out);
}

static void what_no_connection_has_is_refused(void **state)
{
	struct connection_saved good, s;
	struct connection c, fresh;

	save(CONNECTION_REQ_SENT, &good);
	assert_true(restores(&good, &c));
#define REFUSED(change) (s = good, s.change, assert_false(restores(&s, &c)))
	REFUSED(state = CONNECTION_CLOSED);
	REFUSED(state = CONNECTION_SIDR_REQ_RCVD + 1);
	REFUSED(state = CONNECTION_REP_SENT);
	REFUSED(type = IBCM_REP);
	REFUSED(local_id = LOCAL_ID + 1);
	REFUSED(tries_left = CONNECTION_TRIES + 1);
	REFUSED(ack_timeout = 32);
	REFUSED(wait_ns = 0);
	REFUSED(wait_ns = -1);
	REFUSED(wait_ns = INT64_MIN);
	REFUSED(wait_ns = CONNECTION_EXPONENT_0_NS);
	REFUSED(sent.private_bytes = 93);
	REFUSED(sent.info_bytes = IBCM_INFO_BYTES + 1);
	save(CONNECTION_REP_SENT, &good);
	REFUSED(wait_ns = 0);
	REFUSED(wait_ns = CONNECTION_EXPONENT_0_NS * 3);
	REFUSED(wait_ns = CONNECTION_EXPONENT_0_NS << 32);
	REFUSED(wait_ns = CONNECTION_EXPONENT_0_NS - 1);
	s.wait_ns = CONNECTION_EXPONENT_0_NS << 31;
	assert_true(restores(&s, &c));
	/* It is as it was. */
	connection_init(&fresh, &env, LOCAL_ID);
	s.state = UINT32_MAX;
	assert_false(restores(&s, &c));
	assert_memory_equal(&c, &fresh, sizeof(c));
}

/* A repeated message has the communication IDs of its own connection. */
static void messages_name_their_own_connection(void **state)
{
	static const enum connection_state states[] = { CONNECTION_REQ_SENT, CONNECTION_REP_SENT,
							CONNECTION_DREQ_SENT,
							CONNECTION_SIDR_REQ_SENT };

	for (unsigned i = 0; i < 4; i++) {
		struct connection_saved s;
		struct connection c;

		save(states[i], &s);
		s.sent.local_id = s.sent.remote_id = 0xbad;
		s.sent.transaction = 0xbad;
		s.sent.type = (enum ibcm_type)0xbad;
		assert_true(restores(&s, &c));
		connection_resend(&c);
		assert_int_equal(sent.type, s.type);
		assert_int_equal(sent.local_id, LOCAL_ID);
		assert_int_equal(sent.remote_id, i == 1 || i == 2 ? 5 : 0);
		assert_true(sent.transaction == s.transaction);
		if (states[i] == CONNECTION_DREQ_SENT)
			assert_int_equal(sent.qpn, 9);
	}
}

/*
 * The other end may not have got the RTU, and does not repeat its REP soon if it has an MRA. Only
 * the active end repeats the RTU.
 */
static void an_rtu_is_said_again(void **state)
{
	struct ibcm_message rtu = { .type = IBCM_RTU };
	struct connection_saved s;
	struct connection c;

	save(CONNECTION_ESTABLISHED, &s);
	assert_true(restores(&s, &c));
	sent_count = 0;
	connection_resend(&c);
	assert_int_equal(sent_count, 1);
	assert_int_equal(sent.type, IBCM_RTU);
	assert_int_equal(sent.local_id, LOCAL_ID);
	assert_int_equal(sent.remote_id, 5);
	bring(&c, CONNECTION_REP_SENT);
	connection_on_message(&c, &rtu, NOW_NS);
	assert_int_equal(c.state, CONNECTION_ESTABLISHED);
	connection_save(&c, &s);
	assert_true(restores(&s, &c));
	sent_count = 0;
	connection_resend(&c);
	assert_int_equal(sent_count, 0);
}

/* The peer has disconnected before connection_ready, which is still to come, and succeeds. */
static void a_step_that_is_awaited_may_come_later(void **state)
{
	struct ibcm_message dreq = { .type = IBCM_DREQ, .local_id = 5, .qpn = 6 };
	struct connection_saved s;
	struct connection c;

	for (unsigned is_over = 0; is_over < 2; is_over++) {
		bring(&c, CONNECTION_REP_RCVD);
		connection_on_message(&c, &dreq, NOW_NS);
		assert_int_equal(c.state, CONNECTION_TIMEWAIT);
		if (is_over)
			connection_on_time(&c, c.deadline_ns);
		connection_save(&c, &s);
		assert_true(restores(&s, &c));
		connection_on_time(&c, NOW_NS + INT64_C(60000000000));
		assert_int_equal(c.state, CONNECTION_TIMEWAIT);
		assert_int_equal(connection_ready(&c), 0);
		/* And not twice. */
		connection_save(&c, &s);
		assert_true(restores(&s, &c));
		assert_int_equal(connection_ready(&c), -EINVAL);
		connection_on_time(&c, NOW_NS + INT64_C(60000000000));
		assert_int_equal(c.state, CONNECTION_CLOSED);
	}
	/* In another state it says nothing. */
	save(CONNECTION_TIMEWAIT, &s);
	assert_true(restores(&s, &c));
	assert_int_equal(connection_ready(&c), -EINVAL);
	save(CONNECTION_ESTABLISHED, &s);
	s.awaits_ready = 1;
	assert_true(restores(&s, &c));
	assert_int_equal(connection_ready(&c), -EINVAL);
	assert_int_equal(c.state, CONNECTION_ESTABLISHED);
}

static void deadlines_are_near(void **state)
{
	static const int64_t far[] = { INT64_MAX, INT64_MIN, 0, -1, NOW_NS * 1000 };

	for (unsigned i = 0; i < sizeof(far) / sizeof(*far); i++) {
		struct connection_saved s;
		struct connection c;

		save(CONNECTION_TIMEWAIT, &s);
		s.deadline_ns = far[i];
		assert_true(restores(&s, &c));
		assert_in_range(c.deadline_ns, 1, NOW_NS + INT64_C(200000000000));
		save(CONNECTION_ESTABLISHED, &s);
		s.deadline_ns = far[i];
		assert_true(restores(&s, &c));
		assert_true(c.deadline_ns == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_state_comes_back),
		cmocka_unit_test(what_no_connection_has_is_refused),
		cmocka_unit_test(messages_name_their_own_connection),
		cmocka_unit_test(an_rtu_is_said_again),
		cmocka_unit_test(a_step_that_is_awaited_may_come_later),
		cmocka_unit_test(deadlines_are_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
