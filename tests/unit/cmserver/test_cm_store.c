/* SPDX-License-Identifier: BSD-2-Clause */
/* Records come back as they were written, each in its slot; dropped ones make room. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmserver/cm_store.h"

#define COUNT 500

struct record {
	uint32_t kind, value;
	char more[900];
};

static int make_file(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0 && !ftruncate(fd, CTL_CM_STORE_BYTES));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static void put(struct cm_store *s, uint32_t *slot, uint32_t value)
{
	struct record r = { .kind = 1, .value = value };

	memset(r.more, (int)value, sizeof(r.more));
	cm_store_put(s, slot, &r, sizeof(r));
	assert_in_range(*slot, CM_STORE_FIRST, CM_STORE_RECORDS - 1);
}

static uint32_t found[2 * COUNT], found_count, refused = UINT32_MAX;

static bool keep(void *arg, uint32_t slot, const void *record)
{
	const struct record *r = record;

	assert_true(r->value < 2 * COUNT && r->kind == 1);
	assert_int_equal((uint8_t)r->more[899], (uint8_t)r->value);
	if (r->value == refused)
		return false;
	found[r->value] = slot;
	found_count++;
	return true;
}

/* As the next daemon opens it. */
static void read_again(struct cm_store *s)
{
	int fd = dup(s->fd);

	cm_store_close(s, 0);
	assert_int_equal(cm_store_open(s, fd), 0);
	memset(found, 0, sizeof(found));
	found_count = 0;
	cm_store_read(s, keep, NULL);
}

static void records_come_back(void **state)
{
	uint32_t slots[2 * COUNT] = { 0 }, left = 0;
	struct cm_store s;

	assert_int_equal(cm_store_open(&s, make_file()), 0);
	for (uint32_t i = 0; i < COUNT; i++)
		put(&s, &slots[i], i);
	for (uint32_t i = 0; i < COUNT; i += 3) {
		cm_store_drop(&s, &slots[i]);
		assert_int_equal(slots[i], 0);
	}
	for (uint32_t i = 0; i < COUNT; i++)
		left += slots[i] != 0;
	for (unsigned round = 0; round < 2; round++) {
		read_again(&s);
		assert_int_equal(found_count, left);
		for (uint32_t i = 0; i < COUNT; i++)
			assert_int_equal(found[i], slots[i]);
	}
	/* New records take free slots only. */
	for (uint32_t i = COUNT; i < 2 * COUNT; i++)
		put(&s, &slots[i], i);
	read_again(&s);
	assert_int_equal(found_count, left + COUNT);
	for (uint32_t i = 0; i < 2 * COUNT; i++)
		assert_int_equal(found[i], slots[i]);
	assert_in_range(s.next, 0, CM_STORE_FIRST + COUNT + left + 32); /* it reads some at once */
	/* Records that the reader does not keep are dropped. */
	refused = 1;
	read_again(&s);
	refused = UINT32_MAX;
	read_again(&s);
	assert_int_equal(found_count, left + COUNT - 1);
	assert_int_equal(found[1], 0);
	cm_store_close(&s, 0);
}

/* Records far away, and slots between that were never written. */
static void holes_are_free(void **state)
{
	struct record r = { .kind = 1, .value = 0 };
	uint32_t slot = CM_STORE_RECORDS - 1, next = 0;
	struct cm_store s;

	assert_int_equal(cm_store_open(&s, make_file()), 0);
	assert_int_equal(pwrite(s.fd, &r, sizeof(r), (off_t)slot * CM_STORE_RECORD_BYTES),
			 sizeof(r));
	read_again(&s);
	assert_int_equal(found_count, 1);
	assert_int_equal(found[0], slot);
	for (uint32_t i = CM_STORE_FIRST; i < CM_STORE_RECORDS - 1; i++, next = 0) {
		cm_store_put(&s, &next, &r, sizeof(r));
		assert_in_range(next, CM_STORE_FIRST, CM_STORE_RECORDS - 2);
	}
	/* The store is full: a new record is not written. */
	cm_store_put(&s, &next, &r, sizeof(r));
	assert_int_equal(next, 0);
	cm_store_close(&s, 0);
}

static void an_ended_process_does_not_return(void **state)
{
	struct cm_store s;
	int fd = make_file();

	assert_int_equal(cm_store_open(&s, dup(fd)), 0);
	cm_store_end(&s);
	cm_store_close(&s, 0);
	assert_int_equal(cm_store_open(&s, fd), -ESTALE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_back),
		cmocka_unit_test(holes_are_free),
		cmocka_unit_test(an_ended_process_does_not_return),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
