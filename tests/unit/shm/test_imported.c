/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of another process, which is the test: their keys are complete when they are published,
 * and copies wait while pages move. No time passes but in a sleep.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/hazard.h"
#include "memory/imported.h"
#include "rig.h"
#include "shm/imported.h"

#define FAR_SLOT   7
#define FAR_HANDLE 3
#define FAR_KEY	   (FAR_HANDLE << 8 | 1)
#define FAR_PD	   9
#define SECOND	   1000000000ull

static struct rig rig;
static struct far far;
static struct arena_key *entry; /* of the region, there */
static uint64_t word = 17;	/* its memory */

static uint64_t now, moved_ns; /* when its pages have moved */

static void sleep_for(uint64_t ns)
{
	now += ns;
	if (now >= moved_ns)
		entry->flags &= ~(uint32_t)KEY_MOVING;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	*time = (struct timespec){ (time_t)(now / SECOND), (long)(now % SECOND) };
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	pthread_testcancel();
	sleep_for((uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec);
	return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	return 0;
}

static uint64_t read_word(uint32_t key, int expected)
{
	uint64_t value = 0;

	assert_int_equal(imported_ops->copy(key, entry->start, &value, sizeof(value), false),
			 expected);
	return value;
}

static bool used_at_once; /* by another thread, say */

void __real_key_publish(uint32_t index, uint32_t key);
void __wrap_key_publish(uint32_t index, uint32_t key);
void __wrap_key_publish(uint32_t index, uint32_t key)
{
	__real_key_publish(index, key);
	assert_int_equal(read_word(key, 0), word);
	used_at_once = true;
}

static struct mr *import_region(void)
{
	struct mr *mr;

	assert_int_equal(imported_import(far.link, FAR_PD, FAR_HANDLE, rig.pd, &mr), 0);
	return mr;
}

static void test_complete_when_published(void **state)
{
	struct mr *mr = import_region();

	assert_true(used_at_once);
	assert_int_equal(far.link->references, 2);
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(far.link->references, 1);
}

/* As long as ibv_dereg_mr waits for a copy, and no longer. */
static void test_waits_while_pages_move(void **state)
{
	struct mr *mr = import_region();
	uint64_t begin = now;

	entry->flags |= KEY_MOVING;
	moved_ns = begin + 2 * SECOND;
	assert_int_equal(read_word(mr->ib.lkey, 0), word);
	assert_true(now >= moved_ns);

	entry->flags |= KEY_MOVING;
	begin = now;
	moved_ns = UINT64_MAX;
	read_word(mr->ib.lkey, -EFAULT);
	assert_in_range(now - begin, HAZARD_WAIT_MS * SECOND / 1000, 4 * SECOND);

	/* The next one does not wait, until they have moved. */
	begin = now;
	read_word(mr->ib.lkey, -EFAULT);
	assert_int_equal(now, begin);
	entry->flags = 0;
	assert_int_equal(read_word(mr->ib.lkey, 0), word);
	entry->flags |= KEY_MOVING;
	moved_ns = now + SECOND;
	assert_int_equal(read_word(mr->ib.lkey, 0), word);
	entry->flags = 0;
	assert_int_equal(mr_destroy(mr), 0);
}

static void *read_and_be_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	read_word(*(uint32_t *)arg, 0);
	return arg;
}

/* A thread that is cancelled copies to the end: it may hold a QP's lock. */
static void test_cancelled(void **state)
{
	struct mr *mr = import_region();
	pthread_t thread;
	void *end;

	entry->flags |= KEY_MOVING;
	moved_ns = now + SECOND;
	assert_int_equal(pthread_create(&thread, NULL, read_and_be_cancelled, &mr->ib.lkey), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_ptr_equal(end, &mr->ib.lkey);
	assert_int_equal(mr_destroy(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_complete_when_published),
		cmocka_unit_test(test_waits_while_pages_move),
		cmocka_unit_test(test_cancelled),
	};
	int failed;

	rig_create(&rig);
	imported_init();
	far_create(&far, FAR_SLOT);
	far.link->xcopy = XCOPY_VM;
	far.link->pid = getpid();
	far.link->xcopy_id = far.link->pid;
	entry = &arena_keys(far.arena)[FAR_HANDLE];
	entry->start = entry->addr = (uintptr_t)&word;
	entry->length = sizeof(word);
	entry->pd = FAR_PD;
	entry->access = IBV_ACCESS_LOCAL_WRITE;
	entry->key = FAR_KEY;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	far_destroy(&far);
	rig_destroy(&rig);
	return failed;
}
