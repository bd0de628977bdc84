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
	later_s = 29;
	cm_sessions_drop_ended(&s);
	assert_true(cm_sessions_expects(&s));
	/* A process that never returns does not keep others waiting for ever, and still may return.
	 */
	later_s = 31;
	assert_false(cm_sessions_expects(&s));
	assert_true(cm_sessions_is_away(&s, SESSION));
	/* One that has just left is expected anew. */
	other = make_token(SESSION + 1);
	cm_sessions_add(&s, SESSION + 1);
	assert_true(cm_sessions_expects(&s) && cm_sessions_is_held(&s, SESSION + 1));
	/* Not if it has ended. */
	close(other);
	close(token);
	assert_false(cm_sessions_is_held(&s, SESSION + 1));
	cm_sessions_drop_ended(&s);
	assert_false(cm_sessions_expects(&s) || cm_sessions_is_away(&s, SESSION));
	cm_sessions_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_expected_for_a_while) };

	return cmocka_run_group_tests_name("cm sessions", tests, setup, teardown);
}
