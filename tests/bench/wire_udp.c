/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wire_udp - the throughput of udp/ over the loopback, from one thread to another, in MiB/s of
 * payload; or the time, in ns, to send and to receive one packet. For comparison, plain sockets
 * with the same datagrams, without ICRC.
 *
 * The sender never has more in flight than the receiver's buffer holds, so no packet is lost.
 *
 *     wire_udp [PAYLOAD]      prints "WIRE-MIB/S PLAIN-MIB/S"
 *     wire_udp one            prints "WIRE-NS PLAIN-NS": with 8 bytes of payload
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cores.h"
#include "udp/udp.h"
#include "base/gid.h"

#define SECONDS	  1.0
#define WINDOW	  (128 << 10) /* bytes: fits in the buffer of an ordinary user */
#define HEADER	  12
#define TRAIN_MAX 65000

static int cpu[2];
static size_t payload;
static uint8_t memory[1 << 20];
static _Atomic uint64_t received; /* packets */
static atomic_bool done;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int bind_to(unsigned which, uint8_t gid[WIRE_GID_BYTES])
{
	struct in_addr a = { htonl(0x7f000000 | (uint32_t)(getpid() & 0xffff) << 8 | which) };
	union gid_sockaddr address;
	socklen_t len;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	gid_from_v4(&a, gid);
	len = gid_to_sockaddr(gid, 0, WIRE_UDP_PORT, &address);
	if (bind(fd, &address.any, len) < 0)
		fail("bind");
	return fd;
}

static void count_packet(const struct wire_arrival *a)
{
	atomic_fetch_add_explicit(&received, 1, memory_order_relaxed);
}

static void *receive_wire(void *port)
{
	cores_pin(cpu[1]);
	while (!atomic_load(&done))
		udp_receive(port, 0, count_packet);
	return NULL;
}

static void *receive_plain(void *arg)
{
	static uint8_t room[8][65536];
	int fd = *(int *)arg;

	cores_pin(cpu[1]);
	while (!atomic_load(&done)) {
		struct iovec iov[8];
		struct mmsghdr m[8] = { 0 };
		int n;

		for (int i = 0; i < 8; i++) {
			iov[i] = (struct iovec){ room[i], sizeof(room[i]) };
			m[i].msg_hdr.msg_iov = &iov[i];
			m[i].msg_hdr.msg_iovlen = 1;
		}
		n = recvmmsg(fd, m, 8, MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++)
			atomic_fetch_add(&received, m[i].msg_len / (HEADER + payload + 4));
	}
	return NULL;
}

/* Sends bursts for a while; returns MiB/s. */
static double run(void *(*receiver)(void *), void *arg, unsigned burst,
		  void (*send)(void *arg, unsigned count), void *send_arg)
{
	uint64_t sent = 0;
	pthread_t thread;
	double start, end;

	atomic_store(&done, false);
	atomic_store(&received, 0);
	pthread_create(&thread, NULL, receiver, arg);
	start = now();
	do {
		send(send_arg, burst);
		sent += burst;
		while (sent - atomic_load(&received) > WINDOW / payload) {
			if (now() - start > 4 * SECONDS) {
				fputs("wire_udp: packets were lost\n", stderr);
				exit(1);
			}
		}
		end = now();
	} while (end - start < SECONDS);
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	return (double)sent * (double)payload / (1 << 20) / (end - start);
}

static void send_wire(void *arg, unsigned count)
{
	struct wire_packet packets[WIRE_BURST];
	unsigned sent;

	for (unsigned i = 0; i < count; i++) {
		packets[i].header_bytes = HEADER;
		packets[i].payload_bytes = (uint16_t)payload;
		packets[i].pad_bytes = 0;
		packets[i].pieces = 1;
		packets[i].pinned = true;
		memset(packets[i].header, 0, HEADER);
		packets[i].piece[0] = (struct iovec){ memory + i * payload, payload };
	}
	if (udp_send(arg, packets, count, &sent) != WIRE_SENT)
		fail("udp_send");
}

struct plain {
	int fd;
	union gid_sockaddr to;
};

static void send_plain(void *arg, unsigned count)
{
	struct plain *p = arg;
	struct iovec iov = { memory, count * (HEADER + payload + 4) };
	struct msghdr m = { .msg_name = &p->to,
			    .msg_namelen = sizeof(p->to.v4),
			    .msg_iov = &iov,
			    .msg_iovlen = 1 };

	if (sendmsg(p->fd, &m, 0) < 0)
		fail("sendmsg");
}

/*
 * ------------------------------------------------------------------------------------------
 * One packet: one thread sends it to itself, which on the loopback happens within the call.
 */

#define TURNS 100001

static void turn_wire(struct wire_flow *flow, struct wire_port *to)
{
	struct wire_packet packet = { .header_bytes = HEADER, .payload_bytes = 8, .pieces = 1 };
	unsigned sent;

	packet.pinned = true;
	packet.piece[0] = (struct iovec){ memory, 8 };
	udp_send(flow, &packet, 1, &sent);
	/* a poll in vain, as programs have them */
	udp_receive(to, 0, count_packet);
	udp_receive(to, 0, count_packet);
}

static void turn_plain(struct plain *from, int to)
{
	uint8_t bytes[HEADER + 8 + 4] = { 0 };

	sendto(from->fd, bytes, sizeof(bytes), 0, &from->to.any, sizeof(from->to.v4));
	recv(to, bytes, sizeof(bytes), MSG_DONTWAIT);
	recv(to, bytes, sizeof(bytes), MSG_DONTWAIT);
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static void run_one(void)
{
	static double ns[2][TURNS];
	uint8_t gids[2][WIRE_GID_BYTES];
	struct wire_port *ports[2] = { NULL };
	struct wire_flow flow = { .hop_limit = 64 };
	struct plain plain;
	int fds[2];

	for (int kind = 0; kind < 2; kind++) {
		for (unsigned i = 0; i < 2; i++)
			fds[i] = bind_to(i + 1, gids[i]);
		if (!kind && (udp_open(fds[0], gids[0], 0, &ports[0]) ||
			      udp_open(fds[1], gids[1], 0, &ports[1])))
			fail("udp_open");
		flow.port = ports[0];
		flow.sender = udp_sender(ports[0], 0);
		memcpy(flow.remote, gids[1], WIRE_GID_BYTES);
		plain.fd = fds[0];
		gid_to_sockaddr(gids[1], 0, WIRE_UDP_PORT, &plain.to);
		for (int i = 0; i < TURNS; i++) {
			double start = now();

			if (kind)
				turn_plain(&plain, fds[1]);
			else
				turn_wire(&flow, ports[1]);
			ns[kind][i] = (now() - start) * 1e9;
		}
		qsort(ns[kind], TURNS, sizeof(**ns), compare);
		if (!kind) {
			udp_close(ports[0]);
			udp_close(ports[1]);
		}
	}
	printf("%.0f %.0f\n", ns[0][TURNS / 2], ns[1][TURNS / 2]);
}

int main(int argc, char **argv)
{
	uint8_t from_gid[WIRE_GID_BYTES], to_gid[WIRE_GID_BYTES];
	int from_fd, to_fd, segment, gro = 1;
	struct wire_port *from = NULL, *to = NULL;
	struct wire_flow flow = { .hop_limit = 64 };
	struct plain plain;
	unsigned burst;
	double wire;

	cores_choose(cpu);
	if (argc > 1 && !strcmp(argv[1], "one")) {
		run_one();
		return 0;
	}
	payload = argc > 1 ? strtoull(argv[1], NULL, 0) : 4096;
	if (payload < 4 || payload > 4096 || payload % 4)
		return 2;
	burst = (unsigned)(TRAIN_MAX / (payload + HEADER + 4));
	if (burst > WIRE_BURST)
		burst = WIRE_BURST;
	memset(memory, 1, sizeof(memory));
	cores_pin(cpu[0]);
	from_fd = bind_to(1, from_gid);
	to_fd = bind_to(2, to_gid);
	if (udp_open(from_fd, from_gid, 0, &from) || udp_open(to_fd, to_gid, 0, &to))
		fail("udp_open");
	flow.port = from;
	flow.sender = udp_sender(from, 0);
	memcpy(flow.remote, to_gid, sizeof(to_gid));
	wire = run(receive_wire, to, burst, send_wire, &flow);
	udp_close(from);
	udp_close(to);

	plain.fd = bind_to(1, from_gid);
	to_fd = bind_to(2, to_gid);
	gid_to_sockaddr(to_gid, 0, WIRE_UDP_PORT, &plain.to);
	segment = (int)(HEADER + payload + 4);
	if (setsockopt(plain.fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) ||
	    setsockopt(to_fd, IPPROTO_UDP, UDP_GRO, &gro, sizeof(gro)))
		fail("setsockopt");
	printf("%.0f %.0f\n", wire, run(receive_plain, &to_fd, burst, send_plain, &plain));
	return 0;
}
