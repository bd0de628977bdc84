/* SPDX-License-Identifier: BSD-2-Clause */
/* A region that is registered anew while peers ask for it. For the thread sanitizer. */
#include "rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/compat.h"
#include "execute/execute.h"

#define FAR_SLOT  9
#define ROUNDS	  300
#define ROUNDS_NS 10000000000ull /* fewer rounds on a busy machine */
#define SHORT	  64		 /* bytes of the region, in turns with all */
#define BYTES	  4096
#define ACCESS	  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | COMPAT_ACCESS_FLUSH_GLOBAL)

static struct rig rig;
static struct far far;
static struct qp *qp;
static struct mr *mr;
static uint8_t memory[2 * BYTES] __attribute__((aligned(4096)));
static _Atomic bool done;

/* Either the first bytes, or the second half. */
static void *change(void *arg)
{
	uint64_t end = now_ns() + ROUNDS_NS;

	for (int i = 0; i < ROUNDS && now_ns() < end; i++)
		assert_int_equal(mr_change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
					   i & 1 ? memory : memory + BYTES, i & 1 ? SHORT : BYTES,
					   0),
				 0);
	done = true;
	return NULL;
}

/* Of bytes that the region never has, while it has others all the time. */
static void test_requests_for_neither(void **state)
{
	struct remote_range range = { mr->ib.rkey, SHORT, (uintptr_t)memory + SHORT };
	struct operands flush = { COMPAT_FLUSH_GLOBAL, COMPAT_FLUSH_MR };
	enum cause cause;
	uint64_t before;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, change, NULL), 0);
	while (!done) {
		assert_int_equal(execute_check_read(qp, &range, qp->remote_pd, &cause),
				 VERDICT_ACCESS);
		execute_single(qp, OPERATION_FLUSH, &range, &flush, &before, &cause);
	}
	pthread_join(thread, NULL);
}

static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	mr = rig_mr(&rig, memory, SHORT, ACCESS);
	qp = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){ .slot = FAR_SLOT, .access = ACCESS });
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_requests_for_neither, setup, teardown),
	};

	return cmocka_run_group_tests_name("regions that change", tests, NULL, NULL);
}
