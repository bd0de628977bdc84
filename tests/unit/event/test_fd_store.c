/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that holds the store may have changed it, and put anything into it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/fdmsg.h"
#include "event/close_pool.h"
#include "event/fd_store.h"

#define PATIENCE_MS 10000

static int store;

static int begin(void **state)
{
	store = fd_store_create();
	return store < 0;
}

static int finish(void **state)
{
	return close(store);
}

static void add(unsigned count)
{
	int fds[FDMSG_FDS_ROOM];

	for (unsigned i = 0; i < count; i++)
		fds[i] = STDIN_FILENO;
	assert_int_equal(fd_store_add(store, fds, count), 0);
}

/* Of this process, once the close pool has nothing more to close. */
static unsigned count_fds(void)
{
	unsigned count = 0;
	DIR *dir;

	for (int ms = 0; close_pool_has(geteuid()); ms++) {
		assert_true(ms < PATIENCE_MS);
		usleep(1000);
	}
	dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	for (struct dirent *e; (e = readdir(dir));)
		count += e->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void ask_for_more_control_data(void)
{
	int on = 1;

	assert_int_equal(setsockopt(store, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(store, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)), 0);
}

static void test_what_was_put_in(void **state)
{
	unsigned before = count_fds();
	int fds[8];

	add(3);
	add(4);
	ask_for_more_control_data();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fd_store_look(store, fds, 8), 7);
		for (int j = 0; j < 7; j++)
			close(fds[j]);
	}
	assert_int_equal(count_fds(), before);
}

static void test_more_than_there_is_room_for(void **state)
{
	unsigned before = count_fds();
	int fds[8];

	ask_for_more_control_data();
	add(3);
	add(FDMSG_FDS_ROOM);
	assert_int_equal(fd_store_look(store, fds, 8), -E2BIG);
	assert_int_equal(count_fds(), before);
}

static void test_other_messages(void **state)
{
	unsigned before = count_fds();
	int fds[8], fd = STDIN_FILENO;

	add(3);
	assert_int_equal(fdmsg_send(store, "", 1, NULL, 0), 0);
	assert_int_equal(fd_store_look(store, fds, 8), -EPROTO);
	assert_int_equal(count_fds(), before);
	finish(state);
	assert_int_equal(begin(state), 0);
	assert_int_equal(fdmsg_send(store, "two", 3, &fd, 1), 0);
	assert_int_equal(fd_store_look(store, fds, 8), -EPROTO);
	assert_int_equal(count_fds(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_was_put_in),
		TEST(test_more_than_there_is_room_for),
		TEST(test_other_messages),
	};

	return cmocka_run_group_tests_name("fd store", tests, NULL, NULL);
}
