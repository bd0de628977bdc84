/* SPDX-License-Identifier: BSD-2-Clause */
/* The path that a QP takes at RTR, also where the kernel cannot be asked whose address it is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "adapter/path.h"
#include "base/arena.h"
#include "base/cause.h"
#include "object/context.h"
#include "roce/roce.h"
#include "shm/shm_qp.h"

static int answer; /* of the kernel */
static unsigned memory_causes;
static int (*choose)(struct qp *qp, const struct qp_path **path);

int __wrap_device_gid_is_local(const union ibv_gid *gid);
int __wrap_device_gid_is_local(const union ibv_gid *gid)
{
	return answer;
}

void __wrap_cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...);
void __wrap_cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	memory_causes += cause == CAUSE_MEMORY_EXHAUSTED;
}

void __wrap_qp_set_path_choice(int (*choice)(struct qp *qp, const struct qp_path **path));
void __wrap_qp_set_path_choice(int (*choice)(struct qp *qp, const struct qp_path **path))
{
	choose = choice;
}

static void test_chooses_by_the_kernels_answer(void **state)
{
	static struct context context; /* no initializer: newer_ops may be empty */
	struct arena_qp entry = { 0 };
	struct qp qp = { .type = IBV_QPT_RC, .context = &context, .entry = &entry };
	const struct qp_path *path;

	path_init();
	answer = 1;
	assert_int_equal(choose(&qp, &path), 0);
	assert_ptr_equal(path, &shm_path);
	answer = 0;
	assert_int_equal(choose(&qp, &path), 0);
	assert_ptr_equal(path, &roce_path);
	assert_int_equal(memory_causes, 0);
	answer = -EMFILE;
	assert_int_equal(choose(&qp, &path), EMFILE);
	assert_int_equal(memory_causes, 1);
	assert_int_equal(path_is_local(&(union ibv_gid){ 0 }), -EMFILE);
	qp.type = IBV_QPT_UD; /* its AHs know */
	assert_int_equal(choose(&qp, &path), 0);
	assert_ptr_equal(path, &shm_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chooses_by_the_kernels_answer),
	};

	unsetenv("VERBATIM_PATH");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
