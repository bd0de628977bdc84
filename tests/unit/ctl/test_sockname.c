/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of the daemon's sockets, and its lock. */
#include "../daemon/harness.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/sockname.h"

enum { TIMES = 200, TRIES = 1000000 };

/* A daemon that comes and goes; says how often it was there. The other may be stopped with the
 * lock. */
static void come_and_go(int fd)
{
	struct sockname_space space;
	struct sockname name;
	uint64_t times = 0;
	int lock_fd, sock;

	for (int i = 0; i < TRIES && times < TIMES; i++) {
		CHECK(!sockname_space_of_user(geteuid(), &space));
		if (sockname_make_dir(&space, &lock_fd))
			continue;
		CHECK(lock_fd >= 0 && sockname_of_daemon_file(&space, &name));
		sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		CHECK(!sockname_bind(sock, &name) && !access(name.addr.sun_path, F_OK));
		close(sock);
		sockname_clean_dir(&space);
		close(lock_fd);
		times++;
	}
	say(fd, times);
}

/* A daemon that begins while another ends gets a directory that is not removed. */
static void test_who_has_the_lock_has_a_directory(void **state)
{
	struct worker a, b;

	worker_start(&a, come_and_go);
	worker_start(&b, come_and_go);
	CHECK(hear(a.fd) == TIMES && hear(b.fd) == TIMES);
	worker_end(&a);
	worker_end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_has_the_lock_has_a_directory,
						harness_setup, harness_teardown),
	};

	return cmocka_run_group_tests_name("sockname", tests, NULL, NULL);
}
