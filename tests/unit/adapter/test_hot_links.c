/* SPDX-License-Identifier: BSD-2-Clause */
/* Which links a poll looks at, and that no work is left at a link that none looks at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/hot_links.h"
#include "base/eventfd.h"
#include "shm/attention.h"
#include "shm/doorbell.h"

#define LINKS	 10
#define HOT	 1
#define RENEWALS 3
#define OWN_SLOT 900

static struct link links[LINKS];
static void *arena;
static unsigned looks[LINKS], barriers;
static bool barrier_works, work[LINKS], work_at_barrier[LINKS];

int __wrap_progress_link(struct link *link);
int __wrap_progress_link(struct link *link)
{
	unsigned i = (unsigned)(link - links);
	bool any = work[i];

	looks[i]++;
	work[i] = false;
	return any;
}

void __wrap_hazard_barrier(void);
void __wrap_hazard_barrier(void)
{
	barriers++;
	for (int i = 0; i < LINKS; i++) {
		work[i] |= work_at_barrier[i];
		work_at_barrier[i] = false;
	}
}

bool __wrap_hazard_barrier_works(void);
bool __wrap_hazard_barrier_works(void)
{
	return barrier_works;
}

static uint32_t slot_of(int i)
{
	return 60 + (uint32_t)i; /* across two words */
}

static int setup(void **state)
{
	int heap = memfd_create("heap", MFD_CLOEXEC);

	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(arena != MAP_FAILED);
	assert_int_equal(ftruncate(heap, DOORBELL_BYTES), 0);
	doorbell_init(heap, arena, OWN_SLOT);
	close(heap);
	assert_non_null(doorbell_own);
	memset(links, 0, sizeof(links));
	memset(looks, 0, sizeof(looks));
	memset(work, 0, sizeof(work));
	barriers = 0;
	barrier_works = true;
	for (int i = 0; i < LINKS; i++) {
		links[i].slot = slot_of(i);
		links[i].xcopy = XCOPY_VM;
		lock_init(&links[i].wait_lock);
		lock_init(&links[i].rx_lock);
		hot_links_add(&links[i]);
	}
	return 0;
}

static int teardown(void **state)
{
	hot_links_reset_after_fork();
	doorbell_unmap(doorbell_own);
	doorbell_reset_after_fork();
	munmap(arena, ARENA_BYTES);
	return 0;
}

static void renew(unsigned times)
{
	while (times--)
		hot_links_on_renewal();
}

static unsigned cold_links(void)
{
	unsigned n = 0;

	for (int i = 0; i < LINKS; i++)
		n += doorbell_is_cold(slot_of(i));
	return n;
}

/* Returns how many links the poll looked at. */
static unsigned poll_once(void)
{
	unsigned n = 0;

	memset(looks, 0, sizeof(looks));
	hot_links_progress();
	for (int i = 0; i < LINKS; i++)
		n += looks[i];
	return n;
}

static void test_idle_links_become_cold(void **state)
{
	assert_int_equal(poll_once(), LINKS);
	renew(RENEWALS - 1);
	assert_int_equal(cold_links(), 0);
	renew(1);
	assert_int_equal(cold_links(), LINKS - HOT);
	assert_int_equal(barriers, 1);
	assert_int_equal(poll_once(), HOT);
	renew(10);
	assert_int_equal(cold_links(), LINKS - HOT);
	assert_int_equal(barriers, 1);
}

static void test_busy_links_stay(void **state)
{
	for (int round = 0; round < 3 * RENEWALS; round++) {
		work[5] = work[7] = true;
		links[6].waiting = true;
		hot_links_progress();
		renew(1);
	}
	assert_false(doorbell_is_cold(slot_of(5)) || doorbell_is_cold(slot_of(6)) ||
		     doorbell_is_cold(slot_of(7)));
	assert_int_equal(cold_links(), LINKS - 3);
}

/* Work that is stored while the link becomes cold: the look behind the barrier finds it. */
static void test_work_at_the_barrier(void **state)
{
	renew(RENEWALS - 1);
	work_at_barrier[9] = true;
	renew(1);
	assert_false(doorbell_is_cold(slot_of(9)));
	assert_int_equal(cold_links(), LINKS - HOT - 1);
	memset(looks, 0, sizeof(looks));
	hot_links_progress();
	assert_int_equal(looks[9], 1);
}

static void test_a_ring(void **state)
{
	renew(RENEWALS);
	assert_true(doorbell_is_cold(slot_of(8)));
	assert_int_equal(poll_once(), HOT);
	work[8] = true;
	doorbell_ring(doorbell_own, slot_of(8));
	assert_true(doorbell_is_rung());
	assert_true(hot_links_progress());
	assert_int_equal(looks[8], 1);
	assert_false(doorbell_is_cold(slot_of(8)) || doorbell_is_rung());
	assert_int_equal(poll_once(), HOT + 1);
	/* of a slot without a link, of one that is hot */
	doorbell_ring(doorbell_own, 1);
	doorbell_ring(doorbell_own, slot_of(8));
	assert_int_equal(poll_once(), HOT + 1);
}

/* The progress thread looks at all links. */
static void test_found_by_another_look(void **state)
{
	renew(RENEWALS);
	assert_int_equal(hot_links_progress_all(), 0);
	assert_true(doorbell_is_cold(slot_of(8)));
	work[8] = true;
	assert_int_equal(hot_links_progress_all(), 1);
	assert_false(doorbell_is_cold(slot_of(8)));
	assert_int_equal(poll_once(), HOT + 1);
}

static void test_work_of_this_process(void **state)
{
	renew(RENEWALS);
	assert_true(doorbell_is_cold(slot_of(8)));
	lock_acquire(&links[8].wait_lock);
	link_leave_work(&links[8]);
	lock_release(&links[8].wait_lock);
	assert_int_equal(poll_once(), HOT + 1);
	lock_acquire(&links[8].wait_lock);
	link_leave_work(&links[8]);
	lock_release(&links[8].wait_lock);
	assert_false(doorbell_is_rung());
}

/* A link with a record that its peer, which seems to poll, does not execute. */
static int leave_record(struct link *link, struct arena_header *peer)
{
	link->peer = peer;
	link->alive = true;
	link->cold_word = peer->cold;
	link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	link->tx.tail = 64;
	return link->wake_fd;
}

static void test_a_sleeper_wakes_the_peer_of_a_cold_link(void **state)
{
	static struct arena_header peer;
	int fd;

	renew(RENEWALS);
	assert_true(doorbell_is_cold(slot_of(8)));
	fd = leave_record(&links[8], &peer);
	hot_links_before_sleep();
	assert_int_equal(eventfd_withdraw(fd, 100), 0);
	attention_announce(&links[8]);
	hot_links_before_sleep();
	assert_int_equal(eventfd_withdraw(fd, 100), 1);
	close(fd);
}

/* Not even if it is left while the link becomes cold. */
static void test_a_link_with_a_record_stays_hot(void **state)
{
	static struct arena_header peer;
	int fd = leave_record(&links[8], &peer);

	renew(3 * RENEWALS);
	assert_int_equal(cold_links(), LINKS - HOT);
	assert_false(doorbell_is_cold(slot_of(8)));
	close(fd);
}

static void test_removed(void **state)
{
	struct link other = links[8];

	renew(RENEWALS);
	assert_true(doorbell_is_cold(slot_of(8)));
	hot_links_remove(&links[8]);
	assert_false(doorbell_is_cold(slot_of(8)));
	hot_links_remove(&links[0]);
	assert_int_equal(poll_once(), HOT - !doorbell_is_cold(slot_of(0)));
	hot_links_add(&other); /* the slot's next process */
	hot_links_remove(&other);
}

static void test_without_barrier(void **state)
{
	barrier_works = false;
	renew(10);
	assert_int_equal(cold_links(), 0);
	assert_int_equal(poll_once(), LINKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_idle_links_become_cold, setup, teardown),
		cmocka_unit_test_setup_teardown(test_busy_links_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_work_at_the_barrier, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_found_by_another_look, setup, teardown),
		cmocka_unit_test_setup_teardown(test_work_of_this_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_sleeper_wakes_the_peer_of_a_cold_link, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_link_with_a_record_stays_hot, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_barrier, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
