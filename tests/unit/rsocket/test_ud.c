/* SPDX-License-Identifier: BSD-2-Clause */
/* What a poll of a datagram rsocket takes from its CQ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "rsocket/ud.h"

enum { QUEUE = 20, CQE = 2 * QUEUE };

/* A CQ with `there` sends, and as many more while it is polled as `more` says. */
static int there, more;

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	int n = there < count ? there : count, added = more < n ? more : n;

	for (int i = 0; i < n; i++)
		wc[i] = (struct ibv_wc){ .status = IBV_WC_SUCCESS };
	there += added - n;
	more -= added;
	return n;
}

static struct ibv_context context = { .ops.poll_cq = poll_cq };
static struct ibv_cq cq = { .context = &context, .cqe = CQE };
static struct ud_end end;
static struct datagram d;

static int begin(void **state)
{
	lock_init(&d.lock);
	list_init(&d.arrived);
	list_init(&d.ends);
	end = (struct ud_end){ .cq = &cq };
	list_add_tail(&d.ends, &end.link);
	there = more = 0;
	return 0;
}

static bool poll_it(void)
{
	bool found;

	lock_acquire(&d.lock);
	found = ud_poll(&d);
	lock_release(&d.lock);
	return found;
}

/* A thread that armed the CQ sleeps after one poll: no event tells of what was there before. */
static void all_that_was_there(void **state)
{
	static const int rows[] = { 1, 15, 16, 17, 32, 33, CQE };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		there = rows[i];
		end.completed = 0;
		assert_true(poll_it());
		assert_int_equal(end.completed, rows[i]);
		assert_false(poll_it());
	}
}

/* The lock is not held for as long as others go on sending. */
static void not_for_ever(void **state)
{
	there = QUEUE;
	more = 10 * CQE;
	assert_true(poll_it());
	assert_in_range(end.completed, CQE, 2 * CQE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(all_that_was_there, begin),
		cmocka_unit_test_setup(not_for_ever, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
