/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions that are away: how long messages are kept for them, and when they are forgotten. */
#include "cmserver/cm_sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/daemon.h"
#include "daemon/token.h"

#define SESSION 0x1234567

static struct daemon d;
static char base[] = "/tmp/test-sessions.XXXXXX";
static time_t later_s; /* than the clock says */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = __real_clock_gettime(id, t);

	t->tv_sec += later_s;
	return rc;
}

static int setup(void **state)
{
	assert_non_null(mkdtemp(base));
	snprintf(d.space.dir, sizeof(d.space.dir), "%s", base);
	return 0;
}

static int teardown(void **state)
{
	return rmdir(base);
}

static int make_token(uint32_t session)
{
	struct sockname name;
	int fd = token_make_socket();

	sockname_of_session(&d.space, session, &name);
	assert_int_equal(sockname_bind(fd, &name), 0);
	return fd;
}

static void test_expected_for_a_while(void **state)
{
	int token = make_token(SESSION), other;
	struct cm_sessions s;

	cm_sessions_init(&s, &d);
	assert_true(cm_sessions_is_away(&s, SESSION) && cm_sessions_expects(&s));
	cm_sessions_end_wait(&s);
	later_s = 10;
	cm_sessions_drop_ended(&s);
	assert_true(cm_sessions_expects(&s));
	/* A process that never returns does not keep others waiting for ever, and still may return.
	 */
	later_s = 31;
	assert_false(cm_sessions_expects(&s));
	assert_true(cm_sessions_is_away(&s, SESSION));
	/* One that has just left is remembered, but nobody waits for it. */
	other = make_token(SESSION + 1);
	cm_sessions_remember(&s, SESSION + 1, 1);
	assert_true(cm_sessions_is_away(&s, SESSION + 1) && cm_sessions_is_held(&s, SESSION + 1));
	assert_false(cm_sessions_expects(&s));
	/* Not if it has ended. */
	close(other);
	close(token);
	assert_false(cm_sessions_is_held(&s, SESSION + 1));
	cm_sessions_drop_ended(&s);
	assert_false(cm_sessions_expects(&s) || cm_sessions_is_away(&s, SESSION));
	cm_sessions_fini(&s);
}

/* A process that hangs up makes nobody wait, before or after the start's wait. */
static void test_hang_up_is_not_expected(void **state)
{
	int token = make_token(SESSION);
	struct cm_sessions s;

	later_s = 0;
	cm_sessions_init(&s, &d);
	cm_sessions_end_wait(&s);
	cm_sessions_remember(&s, SESSION + 1, 1);
	cm_sessions_on_return(&s, SESSION);
	assert_false(cm_sessions_expects(&s) || cm_sessions_is_away(&s, SESSION));
	assert_true(cm_sessions_is_away(&s, SESSION + 1));
	cm_sessions_on_return(&s, SESSION + 1);
	assert_int_equal(s.away_count, 0);
	cm_sessions_fini(&s);
	close(token);
	cm_sessions_forget(&s, SESSION);
}

/* The daemon of all users remembers some sessions of each. */
static void test_room_of_a_user(void **state)
{
	struct cm_sessions s;

	d.scope = DAEMON_OF_SYSTEM;
	cm_sessions_init(&s, &d);
	for (uint32_t i = 1; i <= CM_SESSIONS_HUNG_UP_MAX; i++) {
		assert_true(cm_sessions_has_room(&s, 1));
		cm_sessions_remember(&s, i, 1);
	}
	assert_false(cm_sessions_has_room(&s, 1));
	assert_true(cm_sessions_has_room(&s, 2));
	cm_sessions_on_return(&s, 1);
	assert_true(cm_sessions_has_room(&s, 1));
	d.scope = DAEMON_OF_USER;
	cm_sessions_fini(&s);
}

/* In any order, also twice; and when there is no more room, any may return. */
static void test_many(void **state)
{
	enum { AWAY = 16384 };
	struct cm_sessions s;

	cm_sessions_init(&s, &d);
	for (uint32_t i = 1; i < AWAY; i++)
		cm_sessions_remember(&s, i * 2654435761u, 1);
	cm_sessions_remember(&s, 9 * 2654435761u, 1);
	assert_int_equal(s.away_count, AWAY);
	for (uint32_t i = 1; i < AWAY; i++)
		assert_true(cm_sessions_is_away(&s, i * 2654435761u));
	assert_false(cm_sessions_is_away(&s, AWAY * 2654435761u));
	assert_false(cm_sessions_may_return(&s, AWAY * 2654435761u));
	cm_sessions_remember(&s, AWAY * 2654435761u, 1);
	assert_true(cm_sessions_may_return(&s, AWAY * 2654435761u));

	for (uint32_t i = 3; i < AWAY; i += 3) {
		cm_sessions_on_return(&s, i * 2654435761u);
		assert_false(cm_sessions_is_away(&s, i * 2654435761u));
	}
	assert_true(cm_sessions_is_away(&s, 1 * 2654435761u));
	assert_int_equal(s.away_count, AWAY - 1 - (AWAY - 1) / 3);
	/* All have ended: there are no names. */
	assert_true(cm_sessions_drop_ended(&s));
	assert_false(cm_sessions_drop_ended(&s));
	assert_int_equal(s.away_count, 0);
	assert_false(cm_sessions_may_return(&s, 1 * 2654435761u));
	cm_sessions_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expected_for_a_while),
		cmocka_unit_test(test_hang_up_is_not_expected),
		cmocka_unit_test(test_room_of_a_user),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests_name("cm sessions", tests, setup, teardown);
}
