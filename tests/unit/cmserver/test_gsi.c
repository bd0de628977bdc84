/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of QP 1 on the daemon's socket: packets that GRO merged are separated, packets for other
 * QPs are counted, and sent packets have a source port of their own. Linked with gsi.c alone; this
 * file has its loop and its port groups.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../udp/net.h"
#include "cmserver/gsi.h"
#include "base/gid.h"
#include "daemon/daemon.h"
#include "daemon/ports.h"
#include "packet/icrc.h"
#include "packet/packet.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define SKIPPED	     77
#define PACKETS	     5
#define PACKET_BYTES 280 /* BTH, DETH, MAD, ICRC */
#define FIRST_PORT   49152

static struct daemon d;
static struct loop_source *watched[3];
static struct fdref fdrefs[3];
static struct port_group groups[3];
static unsigned group_count;
static unsigned messages;
static unsigned tries; /* to open a port, */
static int error;      /* which has to fail with this */
static int64_t now_ns = 1000000000;

int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	*t = (struct timespec){ now_ns / 1000000000, now_ns % 1000000000 };
	return 0;
}

int loop_watch(struct loop *loop, int fd, uint32_t events, struct loop_source *source)
{
	watched[group_count - 1] = source;
	return 0;
}

void loop_forget(struct loop *loop, int fd)
{
}

void loop_defer_free(struct loop *loop, struct loop_deferred_free *deferred)
{
}

int ports_use_for_daemon(struct daemon *daemon, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
			 uint64_t begun_by, struct port_group **out)
{
	struct port_group *g = &groups[group_count];
	int fd, on = 1;

	tries++;
	if (error)
		return error;
	fd = net_bind(gid, CTL_UDP_PORT);
	assert_true(fd >= 0);
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)); /* port_group.c */
	memcpy(g->gid, gid, sizeof(g->gid));
	fdrefs[group_count].fd = fd;
	g->sockets[0] = &fdrefs[group_count++];
	*out = g;
	return 0;
}

void ports_leave_for_daemon(struct daemon *daemon, struct port_group *g)
{
	close(g->sockets[0]->fd);
}

static void on_message(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
		       const struct ibcm_message *m)
{
	messages++;
}

static void come(unsigned which)
{
	struct pollfd p = { .fd = fdrefs[which].fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 5000), 1);
	watched[which]->on_ready(watched[which], POLLIN);
}

/* One packet for QP 1, as gsi_send makes them; `from` is its source port. */
static void make_packet(struct gsi_port *port, const uint8_t to[16], uint8_t bytes[PACKET_BYTES],
			uint16_t *from)
{
	struct ibcm_message m = { .type = IBCM_RTU, .local_id = 5, .remote_id = 6 };
	struct sockaddr_in sender;
	socklen_t length = sizeof(sender);
	int fd = net_bind(to, CTL_UDP_PORT);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	gsi_send(port, to, &m);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(recvfrom(fd, bytes, PACKET_BYTES, 0, (struct sockaddr *)&sender, &length),
			 PACKET_BYTES);
	*from = ntohs(sender.sin_port);
	close(fd);
}

static void send_batch(int fd, const uint8_t to[16], uint8_t *bytes)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
	} control = { 0 };
	union gid_sockaddr address;
	struct iovec iov = { bytes, PACKETS * PACKET_BYTES };
	struct msghdr h = { .msg_name = &address,
			    .msg_namelen = gid_to_sockaddr(to, 0, CTL_UDP_PORT, &address),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	memcpy(CMSG_DATA(c), &(uint16_t){ PACKET_BYTES }, sizeof(uint16_t));
	assert_int_equal(sendmsg(fd, &h, 0), PACKETS * PACKET_BYTES);
}

static void gso_batches_are_taken_apart(void **state)
{
	uint8_t here[16], there[16], other[16], batch[PACKETS][PACKET_BYTES];
	struct gsi_port *a, *b;
	uint16_t source_port;
	static struct gsi own, *gsi = &own;
	int fd, dont_fragment = IP_PMTUDISC_DO;

	net_address(false, 1, here);
	net_address(false, 2, there);
	net_address(false, 3, other);
	gsi_init(gsi, &d, on_message);
	assert_int_equal(gsi_get(gsi, here, 0, 0, &a), 0);
	assert_int_equal(gsi_get(gsi, there, 0, 0, &b), 0);

	make_packet(a, other, batch[0], &source_port);
	assert_in_range(source_port, FIRST_PORT, 65535);

	/* From a port of ours: good ones, one for another process, and a damaged one at the end. */
	fd = net_bind(here, 0);
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof(dont_fragment));

	struct sockaddr_in bound;
	socklen_t length = sizeof(bound);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&bound, &length), 0);
	for (unsigned i = 0; i < PACKETS; i++) {
		uint32_t icrc;

		if (i)
			memcpy(batch[i], batch[0], PACKET_BYTES);
		if (i == 2)
			batch[i][5] = 0x40; /* QPN 0x400001 */
		icrc = net_icrc(here, there, ntohs(bound.sin_port), CTL_UDP_PORT, (uint16_t)i,
				batch[i], PACKET_BYTES - 4);
		memcpy(batch[i] + PACKET_BYTES - 4, &icrc, sizeof(icrc));
	}
	batch[PACKETS - 1][100] ^= 1;
	send_batch(fd, there, batch[0]);
	come(1);
	assert_int_equal(messages, PACKETS - 2);
	assert_int_equal(gsi->counters.received, PACKETS - 2);
	assert_int_equal(gsi->counters.out_of_place, 1);
	assert_int_equal(gsi->counters.damaged, 1);
	assert_int_equal(gsi->counters.malformed, 0);
	close(fd);
	gsi_put(a);
	gsi_put(b);
}

static void rest(int ms)
{
	now_ns += ms * INT64_C(1000000);
}

/* Many listeners on an address whose port is taken: one of them tries. */
static void a_failure_serves_all(void **state)
{
	static const int errors[] = { -EADDRINUSE, -EAGAIN };
	uint8_t gid[CTL_GID_BYTES] = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 9 };
	struct gsi_port *port;
	struct gsi gsi;

	gsi_init(&gsi, &d, on_message);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		tries = 0;
		gid[15]++;
		error = errors[i];
		for (int n = 0; n < 100; n++)
			assert_int_equal(gsi_get_again(&gsi, gid, 0, 0, 10000, &port), error);
		assert_int_equal(tries, 1);
		/* Who does not come again tries always. */
		assert_int_equal(gsi_get(&gsi, gid, 0, 0, &port), error);
		assert_int_equal(tries, 2);
		/* Another address is another matter. */
		gid[15]++;
		assert_int_equal(gsi_get_again(&gsi, gid, 0, 0, 10000, &port), error);
		assert_int_equal(tries, 3);
	}
	/* A user's share is no other user's matter. */
	error = -ENOSPC;
	gid[15]++;
	assert_int_equal(gsi_get_again(&gsi, gid, 0, 1, 10000, &port), -ENOSPC);
	assert_int_equal(gsi_get_again(&gsi, gid, 0, 2, 10000, &port), -ENOSPC);
	assert_int_equal(tries, 5);
	error = -EAGAIN;
	gid[15]--;
	tries = 3;
	/* -EAGAIN is for a moment. */
	rest(GSI_AGAIN_MS + 10);
	assert_int_equal(gsi_get_again(&gsi, gid, 0, 0, 10000, &port), -EAGAIN);
	assert_int_equal(tries, 4);
	rest(50);
	assert_int_equal(gsi_get_again(&gsi, gid, 0, 0, 20, &port), -EAGAIN);
	assert_int_equal(tries, 5);
	error = 0;
	assert_int_equal(gsi_get(&gsi, gid, 0, 0, &port), 0);
	assert_int_equal(gsi_get_again(&gsi, gid, 0, 0, 10000, &port), 0);
	assert_int_equal(tries, 6);
	gsi_put(port);
	gsi_put(port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gso_batches_are_taken_apart),
		cmocka_unit_test(a_failure_serves_all),
	};

	if (!net_init()) {
		printf("skipped: no network namespaces\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
