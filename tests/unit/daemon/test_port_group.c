/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port's sockets when a system call fails in the middle; and the search for the owner of a port.
 * Linked with the daemon's own files, system calls replaced at link time (--wrap).
 */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/gid.h"
#include "daemon/owner.h"
#include "daemon/port_group.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define SLOT_SHIFT 14
#define PROCESSES  200

static int refused_option; /* of SOL_SOCKET: fails once with ENOMEM */
static unsigned searches;
static const char *refused_directory; /* to opendir: EMFILE */
static bool time_is_ours;	      /* the clocks stand, but for: */
static uint64_t now_ns, search_ns,
	look_ns; /* processor time of a search; each look at it takes so long */

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	if (level == SOL_SOCKET && option == refused_option) {
		refused_option = 0;
		errno = ENOMEM;
		return -1;
	}
	return __real_setsockopt(fd, level, option, value, len);
}

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	uint64_t ns = now_ns;

	if (!time_is_ours)
		return __real_clock_gettime(clock, out);
	if (clock == CLOCK_THREAD_CPUTIME_ID)
		ns = search_ns += look_ns;
	*out = (struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	return 0;
}

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
DIR *__wrap_opendir(const char *name)
{
	searches += !strcmp(name, "/proc");
	if (refused_directory && !strcmp(name, refused_directory)) {
		errno = EMFILE;
		return NULL;
	}
	return __real_opendir(name);
}

static int option(int fd, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	getsockopt(fd, IPPROTO_UDP, name, &value, &length);
	return value;
}

/* 127.x.y.z, for this test only. */
static void address(uint8_t which, uint8_t gid[CTL_GID_BYTES])
{
	memset(gid, 0, CTL_GID_BYTES);
	gid[10] = gid[11] = 0xff;
	gid[12] = 127;
	gid[13] = (uint8_t)(getpid() >> 8);
	gid[14] = (uint8_t)getpid();
	gid[15] = which;
}

/* A packet to a QP of the slot arrives at the slot's socket, and only there. */
static void expect_steered(struct port_group *g, unsigned slot)
{
	uint8_t packet[12] = { 0 };
	union gid_sockaddr to;
	socklen_t len = gid_to_sockaddr(g->gid, 0, CTL_UDP_PORT, &to);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t qpn = slot << SLOT_SHIFT | 5;
	struct pollfd p = { .fd = g->sockets[slot]->fd, .events = POLLIN };

	for (int i = 0; i < 3; i++)
		packet[5 + i] = (uint8_t)(qpn >> (16 - 8 * i));
	for (int i = 0; i < 20; i++) {
		assert_int_equal(sendto(fd, packet, sizeof(packet), 0, &to.any, len),
				 sizeof(packet));
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(recv(p.fd, packet, sizeof(packet), MSG_DONTWAIT), sizeof(packet));
	}
	close(fd);
}

/* A step that failed once is repeated at the next request. */
static void steering_that_was_refused_is_made_up_for(void **state)
{
	static const unsigned slots[] = { 1, 4, 9, 2 };
	struct port_group *g;
	uint8_t gid[CTL_GID_BYTES];

	address(1, gid);
	assert_int_equal(port_group_create(gid, 0, &g), 0);
	for (int i = 0; i < 4; i++) {
		if (g->count <= slots[i]) {
			refused_option = SO_ATTACH_REUSEPORT_CBPF;
			assert_int_equal(port_group_use(g, slots[i], getuid()), -ENOMEM);
		}
		assert_int_equal(port_group_use(g, slots[i], getuid()), 0);
		for (int j = 0; j <= i; j++)
			expect_steered(g, slots[j]);
	}
	port_group_destroy(g);
}

static void a_socket_that_was_refused_leaves_the_others_in_order(void **state)
{
	struct port_group *g;
	uint8_t gid[CTL_GID_BYTES];

	address(2, gid);
	assert_int_equal(port_group_create(gid, 0, &g), 0);
	assert_int_equal(port_group_use(g, 3, getuid()), 0);
	refused_option = SO_REUSEPORT;
	assert_int_equal(port_group_use(g, 6, getuid()), -ENOMEM);
	expect_steered(g, 3);
	assert_int_equal(port_group_use(g, 6, getuid()), 0);
	expect_steered(g, 3);
	expect_steered(g, 6);
	port_group_destroy(g);
}

/* Used or not: GRO merges packets by the option of any of them. */
static void every_socket_takes_merged_packets(void **state)
{
	struct port_group *g, *adopted;
	uint8_t gid[CTL_GID_BYTES];

	address(5, gid);
	assert_int_equal(port_group_create(gid, 0, &g), 0);
	assert_int_equal(port_group_use(g, 6, getuid()), 0);
	for (unsigned i = 0; i < g->count; i++)
		assert_int_equal(option(g->sockets[i]->fd, UDP_GRO), 1);
	/* Sockets of an older daemon, which did not set it. */
	assert_int_equal(
		setsockopt(g->sockets[3]->fd, IPPROTO_UDP, UDP_GRO, &(int){ 0 }, sizeof(int)), 0);
	assert_int_equal(port_group_adopt(gid, 0, g->fd_store->fd, &adopted), 0);
	assert_int_equal(option(g->sockets[3]->fd, UDP_GRO), 1);
	port_group_destroy(adopted);
	port_group_destroy(g);
}

/* As rxe and adapters send them. */
static void packets_without_checksum_are_taken_over_ipv6(void **state)
{
	uint8_t gid[CTL_GID_BYTES] = { [15] = 1 };
	struct port_group *g;

	if (port_group_create(gid, 0, &g))
		skip(); /* port 4791 of ::1 is not free here */
	for (unsigned i = 0; i < g->count; i++)
		assert_int_equal(option(g->sockets[i]->fd, UDP_NO_CHECK6_RX), 1);
	port_group_destroy(g);
}

/* A client that asks over and over must not keep the daemon busy with it. */
static void processes_are_searched_once_a_second(void **state)
{
	struct port_group *g;
	uint8_t gid[CTL_GID_BYTES];
	struct owner owner;

	address(3, gid);
	assert_int_equal(port_group_create(gid, 0, &g), 0);
	for (int i = 0; i < 50; i++) {
		owner_find(gid, &owner);
		assert_true(owner.found && owner.uid == getuid());
	}
	assert_in_range(searches, 1, 10);
	address(4, gid);
	owner_find(gid, &owner);
	assert_false(owner.found);
	port_group_destroy(g);
}

/* The test has the port itself, which is none of the processes that are looked at: as if the kernel
 * had it. */
static void find_and_tell(const uint8_t gid[CTL_GID_BYTES], struct owner *owner,
			  char why[CTL_WHY_BYTES])
{
	now_ns += UINT64_C(10000000000); /* the time for searches is new, the last answer too old */
	owner_find(gid, owner);
	assert_true(owner->found && !owner->pid);
	owner->uid = 0; /* as of a socket of the kernel's, whoever runs the test */
	owner_tell(owner, "the address", why);
}

/* No owner is named, nor is it said that there is none, unless all processes were looked at. */
static void a_search_that_is_given_up_is_told(void **state)
{
	char why[CTL_WHY_BYTES];
	struct port_group *g;
	uint8_t gid[CTL_GID_BYTES];
	struct owner owner;

	address(8, gid);
	assert_int_equal(port_group_create(gid, 0, &g), 0);
	now_ns = clock_now_ns();
	time_is_ours = true;
	find_and_tell(gid, &owner, why);
	assert_true(owner.searched && strstr(why, "soft-RoCE"));
	look_ns = 20000000; /* there are more than two processes */
	find_and_tell(gid, &owner, why);
	assert_true(!owner.searched && strstr(why, "given up") && !strstr(why, "soft-RoCE"));
	look_ns = 0;
	find_and_tell(gid, &owner, why);
	assert_true(owner.searched);
	refused_directory = "/proc/1/fd";
	find_and_tell(gid, &owner, why);
	assert_true(!owner.searched && strstr(why, "given up"));
	refused_directory = "/proc";
	find_and_tell(gid, &owner, why);
	assert_true(!owner.searched && strstr(why, "given up"));
	refused_directory = NULL;
	time_is_ours = false;
	port_group_destroy(g);
}

/* IPv6 as well; the owner of another address's port does not count. */
static void owners_are_told_by_ipv6_address(void **state)
{
	uint8_t gid[CTL_GID_BYTES] = { [15] = 1 }, other[CTL_GID_BYTES] = { 0xfd, [15] = 9 };
	struct port_group *g;
	struct owner owner;

	if (port_group_create(gid, 0, &g))
		skip(); /* port 4791 of ::1 is not free here */
	owner_find(gid, &owner);
	assert_true(owner.found && owner.uid == getuid());
	owner_find(other, &owner);
	assert_false(owner.found);
	port_group_destroy(g);
}

/*
 * Two addresses in turn, one of another user, beside many processes: each owner is found at once.
 */
static void owners_of_many_addresses_are_told_in_turn(void **state)
{
	struct port_group *g[2];
	uint8_t gid[2][CTL_GID_BYTES];
	uid_t users[2] = { getuid(), getuid() ? getuid() : 20001 };
	pid_t children[PROCESSES];
	struct owner owner;

	for (unsigned i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (!children[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(0);
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		address((uint8_t)(6 + i), gid[i]);
		assert_int_equal(seteuid(users[i]), 0);
		assert_int_equal(port_group_create(gid[i], 0, &g[i]), 0);
		assert_int_equal(seteuid(getuid()), 0);
	}
	searches = 0;
	for (unsigned i = 0; i < 1000; i++) {
		owner_find(gid[i % 2], &owner);
		assert_true(owner.found);
		assert_int_equal(owner.uid, users[i % 2]);
	}
	/* none if the time for it is used up (budget of owner.c): then without a name */
	assert_true(searches <= 20);
	for (unsigned i = 0; i < PROCESSES; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	port_group_destroy(g[0]);
	port_group_destroy(g[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steering_that_was_refused_is_made_up_for),
		cmocka_unit_test(a_socket_that_was_refused_leaves_the_others_in_order),
		cmocka_unit_test(every_socket_takes_merged_packets),
		cmocka_unit_test(packets_without_checksum_are_taken_over_ipv6),
		cmocka_unit_test(processes_are_searched_once_a_second),
		cmocka_unit_test(a_search_that_is_given_up_is_told),
		cmocka_unit_test(owners_are_told_by_ipv6_address),
		cmocka_unit_test(owners_of_many_addresses_are_told_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
