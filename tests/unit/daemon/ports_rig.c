/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOT_SHIFT 14
#define SEGMENT	   24 /* bytes of a packet here */

static unsigned addresses; /* each test has one of its own */
static uint32_t network;   /* set before the workers are forked */

void this_address(uint8_t gid[CTL_GID_BYTES])
{
	uint32_t a = htonl(network | addresses);

	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &a, 4);
}

int ports_setup(void **state)
{
	network = 0x7f000000 | ((uint32_t)getpid() & 0xffff) << 8;
	addresses++;
	return harness_setup(state);
}

socklen_t to_socket_address(const uint8_t *gid, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (gid[10] == 0xff) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(CTL_UDP_PORT);
		memcpy(&v4->sin_addr, gid + 12, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(CTL_UDP_PORT);
	memcpy(&v6->sin6_addr, gid, 16);
	return sizeof(*v6);
}

int bind_plain(const uint8_t *gid)
{
	struct sockaddr_storage address;
	socklen_t len = to_socket_address(gid, &address);
	int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, len) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void send_marks(const uint8_t *gid, unsigned slot, uint32_t mark, int packets)
{
	struct sockaddr_storage to;
	socklen_t len = to_socket_address(gid, &to);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), segment = SEGMENT;
	uint8_t bytes[16 * SEGMENT] = { 0 };

	for (int i = 0; i < packets; i++) {
		uint32_t qpn = htonl(0xaa000000 | slot << SLOT_SHIFT | 5);

		memcpy(bytes + i * SEGMENT + 4, &qpn, 4);
		memcpy(bytes + i * SEGMENT + 12, &mark, 4);
	}
	if (packets > 1)
		CHECK(!setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)));
	CHECK(sendto(fd, bytes, (size_t)packets * SEGMENT, 0, (struct sockaddr *)&to, len) ==
	      packets * SEGMENT);
	close(fd);
}

uint64_t receive_marks(int fd)
{
	uint8_t bytes[65536];
	uint64_t sum = 0;
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		for (ssize_t at = 0; at < n; at += SEGMENT) {
			uint32_t mark;

			memcpy(&mark, bytes + at + 12, sizeof(mark));
			sum += mark;
		}
	}
	return sum;
}

int get_port(struct ctl_client *c, const uint8_t *gid, char why[CTL_WHY_BYTES])
{
	int fd = -1, rc;

	*why = '\0';
	rc = ctl_port(c, gid, 0, &fd, why, CTL_WHY_BYTES);
	if (rc && !*why)
		fprintf(stderr, "%d without a why\n", rc);
	return rc ? rc : fd;
}

int open_port(struct ctl_client *c, const uint8_t *gid)
{
	char why[CTL_WHY_BYTES];
	int fd = get_port(c, gid, why);

	if (fd < 0)
		fprintf(stderr, "ctl_port: %d %s\n", fd, why);
	CHECK(fd >= 0);
	return fd;
}

static void agent(int orders)
{
	struct ctl_client *c = NULL;
	struct ctl_notice notice;
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES];
	struct stat st;
	uint64_t order;
	int fd = -1, rc;

	this_address(gid);
	while (recv(orders, &order, sizeof(order), 0) == sizeof(order)) {
		switch ((enum order)order) {
		case ORDER_JOIN:
			c = join();
			say(orders, ctl_slot(c));
			break;
		case ORDER_PORT:
			rc = get_port(c, gid, why);
			if (rc >= 0)
				fd = rc;
			say(orders, (uint64_t)(rc < 0 ? -rc : 0));
			break;
		case ORDER_RECEIVE:
			say(orders, receive_marks(fd));
			break;
		case ORDER_RECONNECT:
			rc = ctl_reconnect(c, CTL_CONNECT_MS, why, sizeof(why));
			say(orders, (uint64_t)-rc);
			break;
		case ORDER_INODE:
			rc = open_port(c, gid);
			CHECK(!fstat(rc, &st));
			close(rc);
			say(orders, st.st_ino);
			break;
		case ORDER_LOSE:
			for (int64_t end = now_ms() + PATIENCE_MS;
			     ctl_next_notice(c, &notice) != -ENOTCONN;) {
				CHECK(now_ms() < end);
				usleep(1000);
			}
			say(orders, 0);
			break;
		}
	}
}

uint64_t ask(struct worker *w, enum order order)
{
	say(w->fd, order);
	return hear(w->fd);
}

unsigned start(struct worker *w, bool port)
{
	unsigned slot;

	worker_start(w, agent);
	slot = (unsigned)ask(w, ORDER_JOIN);
	if (port)
		CHECK(ask(w, ORDER_PORT) == 0);
	return slot;
}

void check_steering(struct worker *agents, const unsigned *slots, int count)
{
	static const uint32_t marks[] = { 1, 100, 10000 };
	uint8_t gid[CTL_GID_BYTES];

	this_address(gid);
	for (int i = 0; i < count; i++)
		ask(&agents[i], ORDER_RECEIVE);
	for (int i = 0; i < count; i++) {
		send_marks(gid, slots[i], marks[i], 1);
		send_marks(gid, slots[i], marks[i], 16);
	}
	send_marks(gid, 0, 1000000, 1);
	send_marks(gid, 1023, 1000000, 16);
	send_marks(gid, 900, 1000000, 1);
	for (int i = 0; i < count; i++)
		CHECK(ask(&agents[i], ORDER_RECEIVE) == 17 * marks[i]);
}

void kill_daemon(void)
{
	pid_t pid = daemon_pid();

	CHECK(pid > 0);
	kill(pid, SIGKILL);
	CHECK(wait_for_end(pid, PATIENCE_MS));
}

void wait_until_free(const uint8_t *gid)
{
	int64_t end = now_ms() + PATIENCE_MS;
	int fd;

	while ((fd = bind_plain(gid)) < 0) {
		CHECK(now_ms() < end);
		usleep(1000);
	}
	close(fd);
}
