/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links: verbatimd keeps the descriptors of the newest ones, and offers both ends of an older one
 * new memory.
 */
#include "harness.h"

#include <sys/stat.h>
#include <unistd.h>

#include "daemon/links.h"

#define CLIENTS 24 /* with more pairs than LINKS_KEPT */

static struct ctl_client *clients[CLIENTS];

static ino_t number_of(const struct ctl_peer_info *peer)
{
	struct stat st;

	CHECK(!fstat(peer->link_fd, &st));
	return st.st_ino;
}

/* Both ends get the same memory. Returns its descriptor. */
static int link_newly(struct ctl_client *a, struct ctl_client *b)
{
	struct ctl_peer_info peer;
	struct ctl_notice notice;
	int fd;

	CHECK(!ctl_peer(a, ctl_slot(b), &peer));
	await_notice(b, CTL_LINK, &notice);
	CHECK(notice.peer.slot == ctl_slot(a));
	CHECK(number_of(&notice.peer) == number_of(&peer));
	CHECK(notice.peer.side == !peer.side);
	fd = dup(peer.link_fd);
	CHECK(fd >= 0);
	close_peer(&peer);
	close_peer(&notice.peer);
	return fd;
}

static ino_t inode(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return st.st_ino;
}

static void join_from(int first, int end)
{
	for (int i = first; i < end; i++)
		clients[i] = join();
}

static int setup(void **state)
{
	harness_setup(state);
	join_from(0, CLIENTS);
	return 0;
}

static int setup_few(void **state)
{
	harness_setup(state);
	join_from(0, LONG_PROCESSES_MAX);
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i])
			ctl_close(clients[i]);
	return harness_teardown(state);
}

/* Links the first two, then all. Returns the memory of the first two. */
static int link_all(void)
{
	int first = link_newly(clients[0], clients[1]);

	for (int i = 0; i < CLIENTS; i++)
		for (int j = i + 1; j < CLIENTS; j++)
			if (j > 1)
				close(link_newly(clients[i], clients[j]));
	return first;
}

static void test_keeps_the_newest(void **state)
{
	pid_t daemon = ctl_daemon_pid(clients[0]);
	unsigned before = count_fds(daemon);
	struct ctl_peer_info peer;
	int last;

	close(link_all());
	CHECK(comes_down_to(daemon, before + LINKS_KEPT));
	/* The descriptor of a new one is kept: the other end has no notice, but the same memory. */
	last = link_newly(clients[1], clients[0]);
	CHECK(!ctl_peer(clients[0], ctl_slot(clients[1]), &peer));
	CHECK(number_of(&peer) == inode(last));
	CHECK(has_no_notice(clients[1]));
	close_peer(&peer);
	close(last);
	CHECK(comes_down_to(daemon, before + LINKS_KEPT));
}

static void test_offers_new_memory_for_a_forgotten_one(void **state)
{
	int first = link_all(), second = link_newly(clients[0], clients[1]);

	CHECK(inode(first) != inode(second));
	close(first);
	close(second);
}

/* Also if its memory is forgotten, or was made twice. */
static void test_a_death_is_told_once(void **state)
{
	unsigned slot = ctl_slot(clients[0]);
	struct ctl_notice notice;

	close(link_all());
	close(link_newly(clients[1], clients[0]));
	ctl_close(clients[0]);
	clients[0] = NULL;
	for (int i = 1; i < CLIENTS; i++) {
		await_notice(clients[i], CTL_DEATH, &notice);
		CHECK(notice.peer.slot == slot);
	}
	usleep(20000);
	for (int i = 1; i < CLIENTS; i++)
		CHECK(has_no_notice(clients[i]));
}

static off_t bytes_of_link(struct ctl_client *a, struct ctl_client *b)
{
	int fd = link_newly(a, b);
	struct stat st;

	CHECK(!fstat(fd, &st));
	close(fd);
	return st.st_size;
}

/* Few processes have long memory; and a link that was made then keeps its length. */
static void test_many_have_short_memory(void **state)
{
	const int last = LONG_PROCESSES_MAX - 1;

	CHECK(bytes_of_link(clients[0], clients[last]) == LINK_BYTES_LONG);
	join_from(LONG_PROCESSES_MAX, CLIENTS);
	CHECK(bytes_of_link(clients[0], clients[1]) == LINK_BYTES_SHORT);
	for (int i = 1; i < CLIENTS; i++)
		for (int j = i + 1; j < CLIENTS; j++)
			close(link_newly(clients[i], clients[j]));
	CHECK(bytes_of_link(clients[last], clients[0]) == LINK_BYTES_LONG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_keeps_the_newest),
		TEST(test_offers_new_memory_for_a_forgotten_one),
		TEST(test_a_death_is_told_once),
		cmocka_unit_test_setup_teardown(test_many_have_short_memory, setup_few, teardown),
	};

	return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
