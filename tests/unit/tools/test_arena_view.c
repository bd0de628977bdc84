/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "base/cause.h"
#include "base/counter.h"
#include "tools/arena_view.h"

struct owner {
	int fd;
	void *arena;
};

static int make_memfd(off_t size, int seals)
{
	int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void owner_init(struct owner *owner)
{
	owner->fd = make_memfd(ARENA_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
	owner->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, owner->fd, 0);
	assert_true(owner->arena != MAP_FAILED);
	arena_header(owner->arena)->magic = ARENA_MAGIC;
	arena_header(owner->arena)->version = ARENA_VERSION;
}

static void owner_fini(struct owner *owner)
{
	munmap(owner->arena, ARENA_BYTES);
	close(owner->fd);
}

static void what_is_no_arena_is_refused(void **state)
{
	const struct {
		off_t size;
		int seals;
	} rows[] = {
		{ 0, F_SEAL_SHRINK },
		{ 4096, F_SEAL_SHRINK },
		{ ARENA_BYTES - 1, F_SEAL_SHRINK },
		{ ARENA_BYTES + 4096, F_SEAL_SHRINK },
		{ ARENA_BYTES, 0 }, /* could shrink under us */
		{ ARENA_BYTES, F_SEAL_GROW },
		{ ARENA_BYTES, F_SEAL_SHRINK }, /* no magic */
	};
	struct arena_view view;
	int ends[2];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = make_memfd(rows[i].size, rows[i].seals);

		assert_int_equal(arena_view_open(fd, &view), -EINVAL);
		close(fd);
	}
	assert_int_equal(arena_view_open(-1, &view), -EBADF);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(arena_view_open(ends[0], &view), -EINVAL);
	close(ends[0]);
	close(ends[1]);
}

static void another_version_is_refused(void **state)
{
	struct arena_view view;
	struct owner owner;

	owner_init(&owner);
	arena_header(owner.arena)->version++;
	assert_int_equal(arena_view_open(owner.fd, &view), -EINVAL);
	owner_fini(&owner);
}

static void devices_are_printable(void **state)
{
	struct arena_view_device device;
	struct arena_view view;
	struct owner owner;

	owner_init(&owner);
	memset(&arena_devices(owner.arena)[0], 0x1b, sizeof(struct arena_device));
	strcpy(arena_devices(owner.arena)[3].name, "vrb_lo");
	strcpy(arena_devices(owner.arena)[3].address, "127.0.0.1");
	arena_devices(owner.arena)[3].contexts = 2;

	assert_int_equal(arena_view_open(owner.fd, &view), 0);
	assert_true(arena_view_device(&view, 0, &device));
	assert_int_equal(strlen(device.name), 4 * 32);
	assert_int_equal(strncmp(device.name, "\\x1b", 4), 0);
	assert_false(arena_view_device(&view, 1, &device));
	assert_true(arena_view_device(&view, 3, &device));
	assert_string_equal(device.name, "vrb_lo");
	assert_string_equal(device.address, "127.0.0.1");
	assert_int_equal(device.contexts, 2);
	arena_view_close(&view);
	owner_fini(&owner);
}

static void counters_are_those_of_the_process(void **state)
{
	struct arena_view view;
	struct owner owner;

	owner_init(&owner);
	counter_init(owner.arena);
	counter_add(COUNTER_RX_ICRC_ENCAPSULATED);
	for (unsigned i = 0; i < 4; i++)
		counter_add_of_device(i, COUNTER_SOCKET_FULL);
	counter_add_of_device(ARENA_DEVICES - 1, COUNTER_SOCKET_FULL);
	assert_int_equal(arena_view_open(owner.fd, &view), 0);
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t expected = i == COUNTER_RX_ICRC_ENCAPSULATED ? 1
				    : i == COUNTER_SOCKET_FULL	      ? 5
								      : 0;

		assert_int_equal(arena_view_counter(&view, i), expected);
		assert_int_equal(counter_read((enum counter)i), expected);
		assert_non_null(counter_name((enum counter)i));
		assert_non_null(counter_what((enum counter)i));
	}
	arena_view_close(&view);
	assert_int_equal(
		arena_counters(owner.arena)[arena_device_counters(2) + COUNTER_SOCKET_FULL], 1);
	/* the child of a fork counts by itself */
	counter_reset_after_fork();
	counter_add(COUNTER_RX_ICRC_ENCAPSULATED);
	assert_int_equal(arena_counters(owner.arena)[COUNTER_RX_ICRC_ENCAPSULATED], 1);
	assert_int_equal(counter_read(COUNTER_SOCKET_FULL), 0);
	owner_fini(&owner);
}

struct seen {
	unsigned count;
	struct arena_view_qp last;
};

static void see(const struct arena_view_qp *qp, void *arg)
{
	struct seen *seen = arg;

	seen->count++;
	seen->last = *qp;
}

static void qps_are_found_without_taking_memory(void **state)
{
	struct seen seen = { .count = 0 };
	struct arena_view view;
	struct stat before, after;
	struct owner owner;
	struct arena_qp *qp;

	owner_init(&owner);
	arena_qps(owner.arena)[0].word = ARENA_QP_WORD(IBV_QPT_UD, IBV_QPS_INIT);
	qp = &arena_qps(owner.arena)[ARENA_QPS - 1];
	qp->word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS);
	qp->dest_qpn = 0x8001;

	assert_int_equal(arena_view_open(owner.fd, &view), 0);
	fstat(owner.fd, &before);
	assert_int_equal(arena_view_qps(&view, 3, see, &seen), 0);
	fstat(owner.fd, &after);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.last.qpn, 3 << 14 | (ARENA_QPS - 1));
	assert_int_equal(seen.last.type, IBV_QPT_RC);
	assert_int_equal(seen.last.state, IBV_QPS_RTS);
	assert_int_equal(seen.last.dest_qpn, 0x8001);
	assert_int_equal(after.st_blocks, before.st_blocks);
	arena_view_close(&view);
	owner_fini(&owner);
}

static void causes_are_read(void **state)
{
	struct arena_view_cause cause;
	struct arena_view view;
	struct owner owner;

	owner_init(&owner);
	cause_init(owner.arena);
	cause_report(CAUSE_RKEY_PD, 0x4001, "rkey 0x%x", 7u);
	cause_init(NULL);
	/* What a process gone wild would leave. */
	memset(&arena_causes(owner.arena)[1], 0xff, sizeof(struct arena_cause));

	assert_int_equal(arena_view_open(owner.fd, &view), 0);
	assert_int_equal(arena_view_cause_count(&view), 1);
	assert_true(arena_view_cause(&view, 0, &cause));
	assert_int_equal(cause.cause, CAUSE_RKEY_PD);
	assert_int_equal(cause.qpn, 0x4001);
	assert_non_null(strstr(cause.text, "rkey 0x7"));
	assert_true(arena_view_cause(&view, 1, &cause));
	assert_int_equal(strlen(cause.text), 4 * 231);
	assert_string_equal(cause_name(cause.cause), "UNKNOWN");
	assert_false(arena_view_cause(&view, 2, &cause));
	arena_view_close(&view);
	owner_fini(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_arena_is_refused),
		cmocka_unit_test(another_version_is_refused),
		cmocka_unit_test(counters_are_those_of_the_process),
		cmocka_unit_test(devices_are_printable),
		cmocka_unit_test(qps_are_found_without_taking_memory),
		cmocka_unit_test(causes_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
