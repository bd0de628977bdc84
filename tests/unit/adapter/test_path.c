/* SPDX-License-Identifier: BSD-2-Clause */
/* The path that a QP takes at RTR, also where the kernel cannot be asked whose address it is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/path.h"
#include "base/arena.h"
#include "base/cause.h"
#include "object/context.h"
#include "roce/roce.h"
#include "shm/shm_qp.h"

static int answer; /* of the kernel */
static struct arena_header own;
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

	path_init(NULL, &own);
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

/* Processes of other network namespaces that share a directory. */
static struct arena_header peer;
static struct link met = { .peer = &peer, .slot = 7, .references = 1 };
static bool is_known;

static struct link *find_link(uint32_t slot, bool *asked)
{
	*asked = !is_known;
	if (slot != met.slot || !is_known)
		return NULL;
	link_get(&met);
	return &met;
}

static const union ibv_gid address = { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 } },
			   own_address = { .raw = { [10] = 0xff, 0xff, 10, 0, 1, 1 } },
			   none = { .raw = { 0 } };

static bool shares(const union ibv_gid *from, const union ibv_gid *to, uint32_t slot)
{
	bool is = path_is_shared(from, to, slot << ARENA_QP_BITS | 3);

	assert_int_equal(met.references, 1);
	return is;
}

static void test_shares_a_directory(void **state)
{
	path_init(find_link, &own);
	assert_true(path_shares());
	is_known = true;
	memcpy(&own.addresses[3], own_address.raw, sizeof(own_address));
	assert_false(shares(&own_address, &address, 7)); /* the QPN is of another host */
	memcpy(&peer.addresses[ARENA_ADDRESSES - 1], address.raw, sizeof(address));
	assert_true(shares(&own_address, &address, 7));
	assert_false(shares(&own_address, &address, 8));
	assert_false(shares(&own_address, &none, 7)); /* as places that are empty */
	assert_false(shares(&none, &address, 7));
	assert_false(shares(&address, &address, 7)); /* the peer does not find it here */
	is_known = false;
	assert_false(shares(&own_address, &address, 7));
	is_known = true;

	setenv("VERBATIM_PATH", "wire", 1);
	path_init(find_link, &own);
	unsetenv("VERBATIM_PATH");
	assert_false(path_shares() || shares(&own_address, &address, 7));
	path_init(NULL, &own);
	assert_false(path_shares() || shares(&own_address, &address, 7));
}

/* What adapter_prepare has found decides, and counts for as long as the QP is connected. */
static void test_chooses_by_what_was_found(void **state)
{
	static const struct {
		int found, error;
		bool is_local;
	} rows[] = { { 1, 0, true }, { 0, 0, false }, { -ETIMEDOUT, ETIMEDOUT, false } };
	static struct context context;
	struct arena_qp entry = { 0 };
	struct qp qp = { .type = IBV_QPT_RC, .context = &context, .entry = &entry };
	const struct qp_path *path;

	answer = 0;
	path_init(find_link, &own);
	is_known = false;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		qp.peer_shares = rows[i].found;
		assert_int_equal(choose(&qp, &path), rows[i].error);
		assert_int_equal(path_peer_may_be_local(&qp), rows[i].is_local);
		if (rows[i].error)
			continue;
		assert_ptr_equal(path, rows[i].is_local ? &shm_path : &roce_path);
		assert_int_equal(entry.path, rows[i].is_local ? ARENA_PATH_LOCAL : ARENA_PATH_WIRE);
	}
	answer = 1; /* not asked then */
	qp.peer_shares = 0;
	assert_int_equal(choose(&qp, &path), 0);
	assert_ptr_equal(path, &shm_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chooses_by_the_kernels_answer),
		cmocka_unit_test(test_shares_a_directory),
		cmocka_unit_test(test_chooses_by_what_was_found),
	};

	unsetenv("VERBATIM_PATH");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
