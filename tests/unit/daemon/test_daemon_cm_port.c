/*
 * Connection management with other hosts on an address whose last process has just ended, and may not
 * have closed its port: in a network namespace of the test's own.
 */
#include "cm_raw.h"
#include "harness.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../wire/net.h"

#define SKIPPED 77

static const struct ctl_cm_address here = {
	.gid = { [10] = 0xff, 0xff, 10, 78, 0, 1 },
	.family = AF_INET,
};
static const struct ctl_cm_address elsewhere = {
	.gid = { [10] = 0xff, 0xff, 10, 78, 0, 2 },
	.family = AF_INET,
	.port = 7471,
};

static bool add_address(const struct ctl_cm_address *a)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct ifreq request = { .ifr_name = "lo:1" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	memcpy(&address.sin_addr, a->gid + 12, 4);
	memcpy(&request.ifr_addr, &address, sizeof(address));
	rc = ioctl(fd, SIOCSIFADDR, &request);
	memset(&address.sin_addr, 0xff, 4);
	memcpy(&request.ifr_netmask, &address, sizeof(address));
	rc |= ioctl(fd, SIOCSIFNETMASK, &request);
	close(fd);
	return !rc;
}

/* Soon the port is the daemon's. */
static bool is_taken(const struct ctl_cm_address *a)
{
	int64_t end = now_ms() + PATIENCE_MS;
	int fd;

	while ((fd = net_bind(a->gid, CTL_UDP_PORT)) >= 0) {
		close(fd);
		if (now_ms() > end)
			return false;
		usleep(20000);
	}
	return errno == EADDRINUSE;
}

static void test_listener(void **state)
{
	struct ctl_client *c = join();
	int left = leave_socket(c, here.gid), sock = cm_join();
	struct ctl_cm_address at;

	cm_listen_at(sock, cm_make_channel(sock), &here, &at);
	close(left);
	CHECK(is_taken(&here));
	close(sock);
	ctl_close(c);
}

/* It may end before the port is its own. */
static void test_listener_that_ends(void **state)
{
	struct ctl_client *c = join();
	int left = leave_socket(c, here.gid), sock, fd;
	unsigned before = count_fds(ctl_daemon_pid(c));
	struct ctl_cm_address at;

	sock = cm_join();
	cm_listen_at(sock, cm_make_channel(sock), &here, &at);
	close(sock);
	CHECK(comes_down_to(ctl_daemon_pid(c), before));
	close(left);
	usleep(300000); /* whatever is still to come of it has come */
	fd = net_bind(here.gid, CTL_UDP_PORT);
	CHECK(fd >= 0);
	close(fd);
	CHECK(has_no_notice(c));
	ctl_close(c);
}

static void test_connection(void **state)
{
	struct ctl_client *c = join();
	int left = leave_socket(c, here.gid), sock = cm_join();
	uint32_t id = cm_make_id(sock, cm_make_channel(sock));

	CHECK(cm_connect_from(sock, id, &here, &elsewhere) == EAGAIN);
	close(left);
	CHECK(!cm_connect_from(sock, id, &here, &elsewhere));
	close(sock);
	ctl_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_listener, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_listener_that_ends, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_connection, harness_setup, harness_teardown),
	};

	if (!net_init() || !add_address(&here)) {
		printf("skipped: no network namespaces\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
