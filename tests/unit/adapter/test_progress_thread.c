/*
 * The progress thread against a world made of counters: what is around it is replaced at link time (--wrap),
 * so that a thread can be kept from its processor at any point, and packets can come without end.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/ports.h"
#include "adapter/progress_thread.h"
#include "adapter/listening.h"
#include "adapter/poll_lease.h"
#include "base/clock.h"
#include "shm/retry.h"
#include "roce/roce.h"

#define LEASE_MS    1
#define PATIENCE_MS 5000 /* for what comes as soon as the machine has time for it */

static struct arena_header header;
static int wake_fd, daemon_fd, packets_fd;

static _Atomic unsigned link_looks, wire_looks, notice_looks, retries;
static _Atomic unsigned packets; /* that are there to be taken */
static _Atomic bool endless;	 /* there is always one more */
static _Atomic bool links_busy;	 /* there is always something on a link */
static _Atomic bool stream;	 /* every third look finds one */
static _Atomic bool hears = true;
static _Atomic unsigned taken_alone; /* of the stream, while it was not listened to */
/* The next look writes the wake eventfd; how many follow until links have one. */
static _Atomic bool wakes;
static _Atomic bool comes_late; /* a packet, just before the ports are listened to again */
static _Atomic unsigned busy;	/* so many looks at what is not listened to find another thread there */
static _Atomic bool lent;	/* a lease, during a stream */
static unsigned woken_at;
static _Atomic unsigned looks_until_links;
static _Atomic uint64_t retry_due = RETRY_NEVER;
static _Atomic bool
	daemon_is_lost; /* and none is found: each search takes all the time it is given */
static _Atomic unsigned searches;
static uint64_t search_end_ns;
static _Atomic uint64_t shortest_pause_ns; /* between two of them */
static _Atomic bool ports_are_deaf; /* they cannot be listened to, for now */
static _Atomic unsigned listens;
/* How long threads other than the progress thread are away before and after they set a timer. */
static _Atomic unsigned away_ms;
static pthread_t main_thread;

static void sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	while (ms && nanosleep(&t, &t))
		;
}

/* ------------------------------------------------------------------------------------------
 * The world.
 */

int __wrap_ctl_fd(struct ctl_client *c);
int __wrap_ctl_fd(struct ctl_client *c)
{
	return daemon_fd;
}

int __wrap_ctl_next_notice(struct ctl_client *c, struct ctl_notice *out);
int __wrap_ctl_next_notice(struct ctl_client *c, struct ctl_notice *out)
{
	notice_looks++;
	return daemon_is_lost ? -ENOTCONN : 0;
}

int __wrap_ctl_reconnect(struct ctl_client *c, int limit_ms, char *why, size_t why_len);
int __wrap_ctl_reconnect(struct ctl_client *c, int limit_ms, char *why, size_t why_len)
{
	uint64_t pause = clock_now_ns() - search_end_ns;

	if (searches++ && pause < shortest_pause_ns)
		shortest_pause_ns = pause;
	if (!daemon_is_lost)
		return 0;
	sleep_ms((unsigned)limit_ms);
	search_end_ns = clock_now_ns();
	return -ETIMEDOUT;
}

bool __wrap_peers_introduce_again(bool all);
bool __wrap_peers_introduce_again(bool all)
{
	return false;
}

void __wrap_group_attach_again(void);
void __wrap_group_attach_again(void)
{
}

void __wrap_watch_start(void);
void __wrap_watch_start(void)
{
}

uint64_t __wrap_migrate_run(uint64_t now);
uint64_t __wrap_migrate_run(uint64_t now)
{
	return UINT64_MAX;
}

void __wrap_peers_free_deferred(void);
void __wrap_peers_free_deferred(void)
{
}

bool __wrap_peers_progress(void);
bool __wrap_peers_progress(void)
{
	link_looks++;
	if (woken_at)
		looks_until_links = wire_looks - woken_at + 1;
	woken_at = 0;
	return links_busy;
}

int __wrap_ports_progress(uint64_t now, enum ports_look which);
int __wrap_ports_progress(uint64_t now, enum ports_look which)
{
	eventfd_t ignored;
	unsigned there;

	wire_looks++;
	if (atomic_exchange(&wakes, false)) {
		woken_at = wire_looks;
		eventfd_write(wake_fd, 1);
	}
	if (endless)
		return 1;
	if (busy && !hears) {
		busy--;
		return -EBUSY;
	}
	if (stream) {
		bool found = wire_looks % 3 == 0;

		lent = lent || poll_lease_is_held();
		taken_alone += found && !hears;
		eventfd_write(packets_fd, 1);
		return found;
	}
	/* empty, unless another one comes now */
	eventfd_read(packets_fd, &ignored);
	there = packets;
	while (there && !atomic_compare_exchange_weak(&packets, &there, there - 1))
		;
	return there != 0;
}

bool __wrap_port_table_listen(bool on);
bool __wrap_port_table_listen(bool on)
{
	struct epoll_event event = { .events = EPOLLIN };
	bool hear = on && !ports_are_deaf;

	listens++;
	if (hear && atomic_exchange(&comes_late, false)) {
		packets++;
		eventfd_write(packets_fd, 1);
	}
	if (hears != hear)
		epoll_ctl(port_table_epoll(), hears ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, packets_fd, &event);
	hears = hear;
	return hear == on;
}

uint64_t __wrap_shm_retry_deadline_ns(void);
uint64_t __wrap_shm_retry_deadline_ns(void)
{
	return retry_due;
}

void __wrap_shm_retry_run(uint64_t now);
void __wrap_shm_retry_run(uint64_t now)
{
	retries++;
	retry_due = RETRY_NEVER;
}

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	unsigned ms = pthread_equal(pthread_self(), main_thread) ? away_ms : 0;
	int rc;

	sleep_ms(ms);
	rc = __real_timerfd_settime(fd, flags, new, old);
	sleep_ms(ms);
	return rc;
}

/* ------------------------------------------------------------------------------------------ */

static bool waits_for(bool (*condition)(void))
{
	uint64_t end = clock_now_ns() + PATIENCE_MS * 1000000ull;

	while (!condition())
		if (clock_now_ns() > end)
			return false;
		else
			sleep_ms(1);
	return true;
}

static bool is_asleep(void)
{
	return atomic_load(&header.need_wakeup) && !poll_lease_is_held();
}

static bool is_empty(void)
{
	return packets == 0;
}

static void arrive(void)
{
	packets++;
	eventfd_write(packets_fd, 1);
}

/* One progress thread for all tests: it lives as long as its process. */
static int start(void **state)
{
	struct epoll_event event = { .events = EPOLLIN };
	void *arena = aligned_alloc(4096, 2 << 20);

	main_thread = pthread_self();
	header.need_wakeup = true;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	daemon_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	packets_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(ports_init(NULL, arena), 0);
	assert_int_equal(epoll_ctl(port_table_epoll(), EPOLL_CTL_ADD, packets_fd, &event), 0);
	port_table_count = 1;
	assert_int_equal(progress_thread_start(NULL, &header, wake_fd), 0);
	return 0;
}

static int settle(void **state)
{
	endless = links_busy = stream = false;
	away_ms = 0;
	assert_true(waits_for(is_asleep));
	return 0;
}

/* A thread takes the lease and polls no more: a lease later whoever leaves something wakes the
 * progress thread. */
static void says_asleep_after_the_last_poller(void **state)
{
	progress_thread_on_polling(clock_now_ns());
	assert_false(header.need_wakeup);
	assert_true(waits_for(is_asleep));
}

/* The same if that thread loses its processor in the middle of it, for longer than a lease. */
static void says_asleep_after_a_poller_that_was_away(void **state)
{
	for (int i = 0; i < 20; i++) {
		away_ms = 3 * LEASE_MS;
		progress_thread_on_polling(clock_now_ns());
		away_ms = 0;
		assert_true(waits_for(is_asleep));
	}
}

/* It was away before: its clock is of long ago. */
static void says_asleep_after_a_poller_with_an_old_clock(void **state)
{
	uint64_t before = clock_now_ns();

	sleep_ms(5 * LEASE_MS);
	for (int i = 0; i < 20; i++) {
		progress_thread_on_polling(before + (unsigned)i * LEASE_MS * 1000000ull);
		assert_true(waits_for(is_asleep));
	}
}

static void arming_ends_the_lease(void **state)
{
	progress_thread_on_polling(clock_now_ns());
	assert_true(poll_lease_is_held());
	progress_thread_on_arm();
	assert_false(poll_lease_is_held());
	assert_true(waits_for(is_asleep));
}

static void *take_lease(void *arg)
{
	progress_thread_on_polling(clock_now_ns() + PATIENCE_MS * 1000000ull); /* so long is the lease */
	return NULL;
}

/* Another thread polls: it takes what comes for the one that will sleep. */
static void arming_leaves_the_lease_of_others(void **state)
{
	pthread_t poller;

	assert_int_equal(pthread_create(&poller, NULL, take_lease, NULL), 0);
	assert_int_equal(pthread_join(poller, NULL), 0);
	progress_thread_on_arm();
	assert_true(poll_lease_is_held());
	assert_false(header.need_wakeup);
	/* now it is this thread's */
	progress_thread_on_polling(clock_now_ns() + 2 * PATIENCE_MS * 1000000ull);
	progress_thread_on_arm();
	assert_false(poll_lease_is_held());
	assert_true(waits_for(is_asleep));
}

static void takes_packets_while_nobody_polls(void **state)
{
	for (int i = 0; i < 100; i++) {
		arrive();
		if (i % 7 == 0)
			arrive();
		assert_true(waits_for(is_empty));
	}
}

/* Enough was found by pollers that it stops listening: when they are gone it listens again. */
static void takes_packets_after_pollers_that_found_all(void **state)
{
	for (int i = 0; i < 20; i++) {
		for (int polls = 0; polls < 300; polls++)
			listening_on_look(clock_now_ns(), true);
		progress_thread_on_polling(clock_now_ns());
		arrive();
		assert_true(waits_for(is_empty));
		assert_true(waits_for(is_asleep));
		arrive();
		assert_true(waits_for(is_empty));
	}
}

static bool was_tried_again(void)
{
	return listens >= 3;
}

/* It tried for the last time, and does not any more. */
static bool is_heard_again(void)
{
	listens = 0;
	sleep_ms(50);
	return listens == 0;
}

/* Nothing tells it of packets: it looks by itself, and tries again. */
static void takes_packets_of_ports_it_cannot_listen_to(void **state)
{
	ports_are_deaf = true;
	listens = 0;
	/* this thread may lose its processor, and the lease, before it stops listening */
	for (int i = 0; !listens && i < 1000; i++) {
		for (int polls = 0; polls < 300; polls++)
			listening_on_look(clock_now_ns(), true);
		progress_thread_on_polling(clock_now_ns());
	}
	assert_true(waits_for(is_asleep));
	for (int i = 0; i < 20; i++) {
		packets++;
		assert_true(waits_for(is_empty));
	}
	listens = 0;
	assert_true(waits_for(was_tried_again));
	ports_are_deaf = false;
	assert_true(waits_for(is_heard_again));
	arrive();
	assert_true(waits_for(is_empty));
}

static unsigned links_before, notices_before;

static bool links_and_notices_had_a_look(void)
{
	return link_looks > links_before + 2 && notice_looks > notices_before + 2;
}

static bool retry_was_run(void)
{
	return retries > 0;
}

/* A sender without end has the wire, and nothing but the wire. */
static void packets_without_end_starve_nobody(void **state)
{
	links_before = link_looks;
	notices_before = notice_looks;
	endless = true;
	eventfd_write(packets_fd, 1);
	assert_true(waits_for(links_and_notices_had_a_look));
	retries = 0;
	retry_due = clock_now_ns();
	assert_true(waits_for(retry_was_run));
}

static bool links_had_a_look(void)
{
	return link_looks != links_before;
}

/* Woken while somebody polls, it looks, and leaves the links to him, however busy they are. */
static void leaves_links_to_those_who_poll(void **state)
{
	progress_thread_on_polling(clock_now_ns() + PATIENCE_MS * 1000000ull); /* so long is the lease */
	links_busy = true;
	for (int i = 0; i < 20; i++) {
		links_before = link_looks;
		eventfd_write(wake_fd, 1);
		assert_true(waits_for(links_had_a_look));
		sleep_ms(2); /* enough for thousands of looks */
		assert_in_range(link_looks - links_before, 1, 3);
	}
	links_before = link_looks + 1000;
	notices_before = notice_looks;
	progress_thread_on_arm();
	assert_true(waits_for(links_and_notices_had_a_look));
}

static bool takes_alone(void)
{
	return taken_alone > 100;
}

static bool listens_again(void)
{
	return hears;
}

static void begin_stream(void)
{
	taken_alone = 0;
	stream = true;
	eventfd_write(packets_fd, 1);
	assert_true(waits_for(takes_alone));
}

/* Its packets come without a call; the first one behind it calls again. */
static void a_stream_calls_nobody(void **state)
{
	for (int i = 0; i < 20; i++) {
		begin_stream();
		stream = false;
		assert_true(waits_for(is_asleep));
		assert_true(waits_for(listens_again));
		arrive();
		assert_true(waits_for(is_empty));
	}
}

static bool came_late_and_is_taken(void)
{
	return !comes_late && packets == 0;
}

/* One comes when the progress thread has looked for the last time, and does not listen yet. */
static void the_end_of_a_stream_is_not_lost(void **state)
{
	for (int i = 0; i < 20; i++) {
		comes_late = true;
		/* it may listen at that moment, having been away from its processor: once more then */
		for (int tries = 0; comes_late && tries < 100; tries++) {
			begin_stream();
			stream = false;
			assert_true(waits_for(listens_again));
		}
		assert_true(waits_for(came_late_and_is_taken));
	}
}

static bool nobody_is_busy(void)
{
	return busy == 0;
}

/* Who polls but once is found there, since the progress thread is there all the time: that is no poller. */
static void a_stream_makes_nobody_a_poller(void **state)
{
	begin_stream();
	lent = false;
	for (int i = 0; i < 20; i++) {
		busy = 3;
		assert_true(waits_for(nobody_is_busy));
	}
	assert_true(waits_for(takes_alone));
	assert_false(lent);
}

static bool links_were_called(void)
{
	return looks_until_links != 0;
}

static void a_stream_starves_nobody(void **state)
{
	begin_stream();
	links_before = link_looks;
	notices_before = notice_looks;
	assert_true(waits_for(links_and_notices_had_a_look));
	for (int i = 0; i < 20; i++) {
		taken_alone = 0;
		assert_true(waits_for(takes_alone));
		looks_until_links = 0;
		wakes = true;
		assert_true(waits_for(links_were_called));
		assert_in_range(looks_until_links, 1, 40);
	}
}

/* What else comes is not a stream: it is waited for where the kernel tells of it. */
static void calls_of_others_are_no_stream(void **state)
{
	uint64_t end = clock_now_ns() + PATIENCE_MS * 1000000ull;

	/* so that it is not about to stop for the stream of the test before */
	links_before = link_looks;
	eventfd_write(wake_fd, 1);
	assert_true(waits_for(links_had_a_look));
	assert_true(waits_for(listens_again));
	listens = 0;
	for (int i = 0; i < 1000; i++) {
		links_before = link_looks;
		eventfd_write(wake_fd, 1);
		while (!links_had_a_look() && clock_now_ns() < end)
			;
	}
	assert_int_equal(listens, 0);
}

/* A thread polls: it may stop again, and the progress thread is told of packets until then. */
static void a_stream_is_listened_to_beside_pollers(void **state)
{
	begin_stream();
	progress_thread_on_polling(clock_now_ns() + PATIENCE_MS * 1000000ull); /* so long is the lease */
	assert_true(waits_for(listens_again));
	taken_alone = 0;
	sleep_ms(20);
	assert_in_range(taken_alone, 0, 1); /* one look may have begun before */
	progress_thread_on_arm();
	assert_true(waits_for(takes_alone));
}

static void a_stream_that_cannot_be_listened_to_at_its_end(void **state)
{
	begin_stream();
	ports_are_deaf = true;
	taken_alone = 0;
	assert_true(waits_for(takes_alone)); /* it cannot have begun to listen meanwhile */
	stream = false;
	assert_true(waits_for(is_asleep));
	for (int i = 0; i < 20; i++) {
		packets++;
		assert_true(waits_for(is_empty));
	}
	ports_are_deaf = false;
	assert_true(waits_for(listens_again));
}

static bool was_searched_for(void)
{
	return searches >= 5;
}

/* The daemon hangs: what comes is still taken before peers with usual time-outs (537 ms) give up.
 */
static void a_daemon_that_hangs_stops_no_packets(void **state)
{
	searches = 0;
	daemon_is_lost = true;
	eventfd_write(wake_fd, 1);
	assert_true(waits_for(was_searched_for));
	for (int i = 0; i < 4; i++) {
		uint64_t start = clock_now_ns();

		arrive();
		assert_true(waits_for(is_empty));
		assert_in_range(clock_now_ns() - start, 0, 500 * 1000000ull);
	}
	daemon_is_lost = false;
}

/* Nor a stream: the pauses between the searches are for the packets. */
static void a_daemon_that_hangs_stops_no_stream(void **state)
{
	begin_stream();
	searches = 0;
	shortest_pause_ns = UINT64_MAX;
	daemon_is_lost = true;
	eventfd_write(wake_fd, 1);
	assert_true(waits_for(was_searched_for));
	assert_true(shortest_pause_ns > 150 * 1000000ull);
	taken_alone = 0;
	assert_true(waits_for(takes_alone));
	daemon_is_lost = false;
}

/* Nor is it forgotten because packets come, now and then, and nothing else. */
static void packets_put_off_no_search(void **state)
{
	uint64_t end = clock_now_ns() + PATIENCE_MS * 1000000ull;

	searches = 0;
	daemon_is_lost = true;
	eventfd_write(wake_fd, 1);
	while (!was_searched_for() && clock_now_ns() < end) {
		arrive();
		sleep_ms(20);
	}
	assert_true(was_searched_for());
	daemon_is_lost = false;
}

#define TEST(f) cmocka_unit_test_teardown(f, settle)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(says_asleep_after_the_last_poller),
		TEST(says_asleep_after_a_poller_that_was_away),
		TEST(says_asleep_after_a_poller_with_an_old_clock),
		TEST(arming_ends_the_lease),
		TEST(arming_leaves_the_lease_of_others),
		TEST(takes_packets_while_nobody_polls),
		TEST(takes_packets_after_pollers_that_found_all),
		TEST(takes_packets_of_ports_it_cannot_listen_to),
		TEST(packets_without_end_starve_nobody),
		TEST(leaves_links_to_those_who_poll),
		TEST(a_stream_calls_nobody),
		TEST(the_end_of_a_stream_is_not_lost),
		TEST(a_stream_makes_nobody_a_poller),
		TEST(a_stream_starves_nobody),
		TEST(calls_of_others_are_no_stream),
		TEST(a_stream_is_listened_to_beside_pollers),
		TEST(a_stream_that_cannot_be_listened_to_at_its_end),
		TEST(a_daemon_that_hangs_stops_no_packets),
		TEST(a_daemon_that_hangs_stops_no_stream),
		TEST(packets_put_off_no_search),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
