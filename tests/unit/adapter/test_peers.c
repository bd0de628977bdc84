/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links to one peer: each record is executed once, whichever thread asks verbatimd for the link,
 * and whenever its answer comes.
 */
#include "peers_rig.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static void test_carries_out_what_the_dead_left(void **state)
{
	assert_non_null(find());
	leave_one();
	hot_links_progress_all();
	assert_int_equal(carried_out, 1);
	leave_one();
	die();
	assert_null(find());
	assert_int_equal(closed, 0);
	hear_of_death();
	assert_int_equal(carried_out, 2);
	assert_int_equal(closed, 1);
}

/* Whoever holds the link may be through with it, and not look again; or it stays there. */
static void test_a_last_look_gets_the_link(void **state)
{
	assert_non_null(find());
	leave_one();
	held = 2 * HOT_LINKS_ROUNDS_MAX;
	hot_links_progress_last();
	assert_int_equal(carried_out, 1);
	held = UINT32_MAX;
	hot_links_progress_last();
	see_it_die();
}

/*
 * The peer linked with us, sent a record and died before we had the link; no notice of the death
 * will come.
 */
static void test_carries_out_what_came_with_the_link(void **state)
{
	leave_one();
	die();
	find();
	peers_free_deferred();
	assert_int_equal(carried_out, 1);
	assert_int_equal(closed, 1);
}

/* While a thread asks for the link, another one gets it, and the peer dies. */
static void ask_beside(void)
{
	assert_non_null(find());
	hot_links_progress_all();
	see_it_die();
}

static void test_carries_out_nothing_twice(void **state)
{
	leave_one();
	leave_one();
	while_asked = ask_beside;
	assert_null(find());
	hot_links_progress_all();
	peers_free_deferred();
	assert_int_equal(carried_out, 2);
	assert_int_equal(closed, 1);
}

/* The same for a link that was in use for long. */
static void test_asks_for_the_link_of_the_dead(void **state)
{
	assert_non_null(find());
	leave_one();
	hot_links_progress_all();
	die();
	while_asked = hear_of_death;
	assert_null(find());
	hot_links_progress_all();
	peers_free_deferred();
	assert_int_equal(carried_out, 1);
	assert_int_equal(closed, 1);
}

static bool look_up(struct link **link)
{
	bool asked;

	*link = peers_look_up(PEER_SLOT, &asked);
	if (*link)
		link_put(*link);
	return asked;
}

/* A sender does not wait for a process that is not known; verbatimd is asked now and then. */
static void test_looks_up_without_waiting(void **state)
{
	uint64_t before_ns = clock_coarse_ns();
	struct link *link;

	for (int i = 0; i < 1000; i++) {
		assert_true(look_up(&link) && !link);
		peers_ask();
	}
	assert_in_range(questions, 1, 1 + (clock_coarse_ns() - before_ns) / PEERS_ASK_NS);
	assert_int_equal(told, 0);
	hear_of_link();
	assert_int_equal(told, 1);
	assert_true(!look_up(&link) && link);
	die();
	assert_true(look_up(&link));
	hear_of_link(); /* late: the slot's next process may be there */
	assert_true(look_up(&link) && !link);
	hear_of_link(); /* verbatimd has not seen its end */
	assert_false(look_up(&link));
	peers_forget_miss(PEER_SLOT);
	assert_true(look_up(&link));
	peers_forget_miss(PEER_SLOT);
	peers_on_none(PEER_SLOT, ENOENT); /* that was asked before */
	assert_true(look_up(&link));
	hear_of_death();
}

/* While another thread uses the connection, the question stays. */
static void test_no_question_is_lost(void **state)
{
	struct link *link;

	is_busy = true;
	assert_true(look_up(&link));
	assert_true(peers_ask() && peers_ask() && !questions);
	is_busy = false;
	assert_true(!peers_ask() && questions == 1);
	assert_true(!peers_ask() && questions == 1);
	assert_int_equal(told, 0);
}

/* A missing process is remembered for a moment, or until verbatimd's notice of a link. */
static void test_remembers_a_miss(void **state)
{
	const struct timespec later = { 0, 2 * PEERS_MISS_NS };
	struct link *link;

	assert_true(look_up(&link));
	peers_ask();
	peers_on_none(PEER_SLOT, EAGAIN); /* not known yet */
	assert_true(look_up(&link));
	peers_on_none(PEER_SLOT, ENOENT);
	assert_int_equal(told, 1);
	assert_true(!look_up(&link) && !link);
	peers_ask();
	assert_int_equal(questions, 1);
	nanosleep(&later, NULL);
	assert_true(look_up(&link));
	peers_ask();
	assert_int_equal(questions, 2);
	peers_on_none(PEER_SLOT, ENOENT);
	hear_of_link();
	assert_true(!look_up(&link) && link);
	see_it_die();
}

/* The process may have no more addresses (RLIMIT_AS): verbatimd is not asked again at once. */
static void test_a_link_that_cannot_be_mapped_is_a_miss(void **state)
{
	const struct timespec later = { 0, 2 * PEERS_MISS_NS };
	struct rlimit before, none;
	struct ctl_peer_info info;
	struct link *link;

	assert_true(look_up(&link));
	peers_ask();
	assert_int_equal(__wrap_ctl_peer(NULL, PEER_SLOT, &info), 0);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	peers_on_link(&info);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(told, 1);
	assert_int_equal(memory_causes, 1);
	assert_true(!look_up(&link) && !link);
	nanosleep(&later, NULL);
	assert_true(look_up(&link));
	peers_ask();
	assert_int_equal(questions, 2);
	hear_of_link();
	assert_true(!look_up(&link) && link);
	see_it_die();
}

/*
 * The peer was offered other memory before this process had started with this one: the next answer
 * has it. Until then requests wait, and do not take the peer for one that is not there.
 */
static void test_memory_that_the_peer_has_left_is_no_miss(void **state)
{
	struct link_shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	int left = memory_fd;
	struct link *link;

	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_true(look_up(&link) && !link);
	peers_ask();
	shared->ends = 1u << 1 | LINK_LEFT;
	hear_of_link();
	assert_int_equal(told, 1);
	assert_true(look_up(&link) && !link);
	peers_ask();
	assert_int_equal(questions, 2);
	hear_of_link(); /* once more the same: it is not asked again at once */
	assert_true(!look_up(&link) && !link);
	memory_fd = make_memory("next link", LINK_BYTES_OF(RING_BYTES_MIN));
	hear_of_link();
	assert_true(!look_up(&link) && link);
	see_it_die();
	close(memory_fd);
	memory_fd = left;
	munmap(shared, sizeof(*shared));
}

static bool is_asked_for(struct link *known)
{
	struct link *link;
	unsigned before = questions;

	look_up(&link);
	peers_ask();
	assert_ptr_equal(link, known);
	return questions > before;
}

/* While verbatimd's last answer counts; on a busy machine that may be over before one looks. */
static void expect_while_it_counts(uint64_t answer_ns, bool waits)
{
	struct link *link;
	bool asked = look_up(&link), busy = peers_ask();

	assert_null(link);
	if (clock_coarse_ns() - answer_ns < PEERS_MISS_NS)
		assert_true(asked == waits && busy == waits);
}

/* verbatimd may lack descriptors for a moment: it is asked again, and requests wait meanwhile. */
static void test_a_link_that_cannot_be_made_now_is_no_miss(void **state)
{
	const struct timespec later = { 0, 2 * PEERS_MISS_NS };
	uint64_t begin_ns;
	struct link *link;

	assert_true(is_asked_for(NULL));
	begin_ns = clock_coarse_ns();
	peers_on_none(PEER_SLOT, EMFILE);
	assert_int_equal(memory_causes, 1);
	assert_int_equal(told, 0);
	expect_while_it_counts(begin_ns, true); /* asked again, but not at once */
	nanosleep(&later, NULL);
	assert_false(peers_ask());
	assert_int_equal(questions, 2);
	hear_of_link();
	assert_int_equal(told, 1);
	assert_true(!look_up(&link) && link);
	see_it_die();

	assert_true(is_asked_for(NULL));
	begin_ns = clock_coarse_ns();
	told = 0;
	do {
		nanosleep(&later, NULL);
		peers_ask();
		peers_on_none(PEER_SLOT, EMFILE);
	} while (!told);
	assert_true(clock_coarse_ns() - begin_ns >= PEERS_REFUSED_NS);

	/* as long as it goes on, the next one does not wait for as long */
	nanosleep(&later, NULL);
	look_up(&link);
	peers_ask();
	told = 0;
	begin_ns = clock_coarse_ns();
	peers_on_none(PEER_SLOT, EMFILE);
	assert_int_equal(told, 1);
	expect_while_it_counts(begin_ns, false);
	peers_on_none(PEER_SLOT, ENOENT);
	nanosleep(&later, NULL);
}

static struct link *quicker;

static void be_quicker(void)
{
	quicker = find();
}

static void find_the_quicker_one(void)
{
	struct link *link = find();

	assert_non_null(link);
	assert_ptr_equal(link, quicker);
	leave_one();
	hot_links_progress_all();
	assert_int_equal(carried_out, 1);
	see_it_die();
	assert_int_equal(closed, 1);
}

static void test_asked_twice_at_once(void **state)
{
	while_asked = be_quicker;
	find_the_quicker_one();
}

/* verbatimd has forgotten what it offered before, and offers another memory. */
static void be_quicker_with_other_memory(void)
{
	int offered = memory_fd;

	memory_fd = make_memory("other link", LINK_BYTES_OF(RING_BYTES_MIN));
	be_quicker();
	close(memory_fd);
	memory_fd = offered;
}

/* The peer may know the memory alone that the slower thread was offered. */
static void test_asked_twice_with_other_memory(void **state)
{
	while_made = be_quicker_with_other_memory;
	find_the_quicker_one();
}

/* It lives in another PID namespace. */
static void test_peer_with_our_pid(void **state)
{
	struct link *link;

	peer_pid = getpid();
	leave_one();
	link = find();
	assert_non_null(link);
	assert_int_not_equal(link->xcopy, XCOPY_SELF);
	hot_links_progress_all();
	assert_int_equal(carried_out, 1);
	see_it_die();
	assert_int_equal(closed, 1);
}

/*
 * A new verbatimd is asked for all links, and gets the questions to the last one, without waiting.
 * It does not know the peer, which is dead.
 */
static void test_introduces_without_waiting(void **state)
{
	struct link *link;

	assert_true(is_asked_for(NULL));
	assert_false(is_asked_for(NULL));
	peers_introduce_again(true);
	assert_true(is_asked_for(NULL));

	hear_of_link();
	assert_false(look_up(&link));
	assert_false(is_asked_for(link));
	is_known = false; /* nor is ctl_peer called, which would wait for an answer */
	peer->liveness = 0;
	link->pid = INT32_MAX;
	assert_true(peers_introduce_again(true));
	assert_true(is_asked_for(link));
	assert_true(peers_introduce_again(false));
	assert_false(is_asked_for(link));
	peers_on_none(PEER_SLOT, ENOENT);
	assert_int_equal(closed, 1); /* its PID is no process's */
	assert_false(peers_introduce_again(false));
}

/* A living peer is asked for until verbatimd knows it, which may see it by another PID. */
static void test_introduces_later_who_is_not_back(void **state)
{
	const struct timespec later = { 0, 2 * PEERS_MISS_NS };
	struct link *link = find();

	assert_non_null(link);
	assert_true(peers_introduce_again(true));
	assert_true(is_asked_for(link));
	peers_on_none(PEER_SLOT, EMFILE); /* asked again by itself */
	nanosleep(&later, NULL);
	assert_true(is_asked_for(link));
	peers_on_none(PEER_SLOT, EAGAIN);
	assert_true(peers_introduce_again(false));
	assert_true(is_asked_for(link));
	told_pid = peer_pid + 7;
	hear_of_link();
	assert_false(peers_introduce_again(false));
	assert_false(is_asked_for(link));
	assert_ptr_equal(find(), link);
	peer->liveness = 0; /* not known: the notice alone counts */
	peers_on_death(PEER_SLOT, peer_pid);
	assert_int_equal(closed, 0);
	peers_on_death(PEER_SLOT, told_pid);
	assert_int_equal(closed, 1);
}

/* The peer has read our records: nobody needs their pages. */
static void test_gives_back_what_rests(void **state)
{
	uint64_t now = PEERS_LOOK_NS;
	struct link *link = find();

	assert_non_null(link);
	for (int i = 0; i < 5; i++) {
		struct record *record = ring_reserve(&link->tx, RECORD_PAYLOAD_MAX, 0);

		assert_non_null(record);
		record->header.bytes = RECORD_PAYLOAD_MAX;
		ring_publish(&link->tx, record, record_word(OPERATION_SEND, 0, RECORD_PAYLOAD_MAX));
	}
	atomic_store(&link->tx.control->head, link->tx.tail);
	for (int looks = 0; looks < LINK_RESTS; looks++)
		peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(link->tx.given, 0);
	peers_look_for_deaths(now + PEERS_LOOK_NS);
	assert_int_equal(link->tx.given, link->tx.tail);
	assert_int_equal(broken, 0);
	see_it_die();
}

/* All below are in use. */
static int next_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* It takes two descriptors, one of them for a moment. */
static void test_without_descriptors(void **state)
{
	struct rlimit before, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (unsigned left = 0; left < 2; left++) {
		few = (struct rlimit){ (rlim_t)next_descriptor() + left, before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		assert_int_equal(peers_init(NULL, OWN_SLOT, own, memory_fd), -EMFILE);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(carries_out_what_the_dead_left),
		TEST(a_last_look_gets_the_link),
		TEST(carries_out_what_came_with_the_link),
		TEST(carries_out_nothing_twice),
		TEST(asks_for_the_link_of_the_dead),
		TEST(looks_up_without_waiting),
		TEST(no_question_is_lost),
		TEST(remembers_a_miss),
		TEST(introduces_without_waiting),
		TEST(introduces_later_who_is_not_back),
		TEST(a_link_that_cannot_be_mapped_is_a_miss),
		TEST(memory_that_the_peer_has_left_is_no_miss),
		TEST(a_link_that_cannot_be_made_now_is_no_miss),
		TEST(asked_twice_at_once),
		TEST(asked_twice_with_other_memory),
		TEST(peer_with_our_pid),
		TEST(gives_back_what_rests),
		TEST(without_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
