/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a link: who is dead copies nothing, a death is seen without verbatimd, and a broken
 * link ends while its process lives on.
 */
#include "peers_rig.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool publishes(void *arena, uint64_t what)
{
	return arena_hazard(arena, 3)->what == what;
}

/* The peer is a process that ends by end_child. */
static void start_peer(void)
{
	peer_pid = fork();
	if (!peer_pid)
		for (;;)
			pause();
}

static void end_child(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/*
 * A peer is killed in the middle of a copy by a thread that ends later than others: its hazard
 * counts until all its threads have ended, whether its death was noticed or not.
 */
static void test_the_dead_do_not_copy(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;

	xcopy = XCOPY_VM;
	start_peer();
	assert_non_null(find());
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	arena_hazard(peer, 3)->what = what;
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	die();
	for (int looks = 0; looks < 3; looks++) {
		assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
		usleep(50000);
	}
	end_child(peer_pid);
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	assert_int_equal(closed, 0);
	arena_hazard(own, 3)->what = what;
	assert_int_equal(peers_visit_arenas(publishes, what), getpid());
	hear_of_death();
}

/* A zombie, which its parent has not reaped, does not copy either. */
static void test_zombies_do_not_copy(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;
	siginfo_t info;

	xcopy = XCOPY_VM;
	peer_pid = fork();
	if (!peer_pid)
		_exit(0);
	assert_non_null(find());
	arena_hazard(peer, 3)->what = what;
	die();
	assert_int_equal(waitid(P_PID, (id_t)peer_pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	assert_int_equal(waitpid(peer_pid, NULL, 0), peer_pid);
	hear_of_death();
}

/* A PID that no process has here may exist in another PID namespace. */
static void test_pids_of_other_namespaces_say_nothing(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;

	peer_pid = fork();
	if (!peer_pid)
		_exit(0);
	assert_int_equal(waitpid(peer_pid, NULL, 0), peer_pid);
	assert_non_null(find());
	arena_hazard(peer, 3)->what = what;
	die();
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	hear_of_death();
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
}

static void test_who_is_known_to_be_dead_does_not_copy(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;

	assert_non_null(find());
	arena_hazard(peer, 3)->what = what;
	see_it_die();
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
}

/* When verbatimd is stopped, or has ended, no notice comes. */
static void test_sees_deaths_without_verbatimd(void **state)
{
	uint64_t now = PEERS_LOOK_NS;

	assert_true(peers_look_due_ns() == UINT64_MAX);
	xcopy = XCOPY_VM;
	start_peer();
	assert_non_null(find());
	leave_one();
	peers_look_for_deaths(now);
	assert_int_equal(closed, 0);
	die();
	assert_true(peers_look_due_ns() == 2 * PEERS_LOOK_NS);
	for (int looks = 0; looks < 3; looks++) { /* one of its threads may still copy */
		peers_look_for_deaths(now += PEERS_LOOK_NS);
		assert_int_equal(closed, 0);
	}
	end_child(peer_pid);
	peers_look_for_deaths(now + PEERS_LOOK_NS - 1);
	assert_int_equal(closed, 0);
	peers_look_for_deaths(now + PEERS_LOOK_NS);
	assert_int_equal(closed, 1);
	assert_int_equal(carried_out, 1);
	assert_true(peers_look_due_ns() == UINT64_MAX);
	hear_of_death(); /* late: nothing is left to end */
	assert_int_equal(closed, 1);
}

/* The kernel cannot be asked about its threads: two looks have to see it dead. */
static void test_sees_deaths_in_other_pid_namespaces(void **state)
{
	assert_non_null(find());
	peers_look_for_deaths(PEERS_LOOK_NS);
	die();
	peers_look_for_deaths(2 * PEERS_LOOK_NS);
	assert_int_equal(closed, 0);
	peers_look_for_deaths(3 * PEERS_LOOK_NS);
	assert_int_equal(closed, 1);
}

/* Its process lives on, and may copy until it has ended. */
static void test_ends_a_broken_link(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;
	uint64_t now = PEERS_LOOK_NS;
	struct link *link;

	xcopy = XCOPY_VM;
	start_peer();
	link = find();
	assert_non_null(link);
	peers_look_for_deaths(now);
	assert_int_equal(broken, 0);
	memset(tx.data, 0xff, 64);
	hot_links_progress_all();
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(broken, 1);
	assert_ptr_equal(find(), link);
	assert_int_equal(questions, 0);
	arena_hazard(peer, 3)->what = what;
	assert_false(peers_introduce_again(true));
	hear_of_link(); /* of another verbatimd, whom the peer has asked */
	assert_ptr_equal(find(), link);
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	assert_int_equal(broken, 2); /* for QPs that were connected since */
	assert_int_equal(closed, 0);
	die();
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	end_child(peer_pid);
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	assert_int_equal(closed, 1);
	is_known = false;
	assert_null(find());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(the_dead_do_not_copy),
		TEST(zombies_do_not_copy),
		TEST(pids_of_other_namespaces_say_nothing),
		TEST(who_is_known_to_be_dead_does_not_copy),
		TEST(sees_deaths_without_verbatimd),
		TEST(sees_deaths_in_other_pid_namespaces),
		TEST(ends_a_broken_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
