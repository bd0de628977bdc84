/*
 * UDP trains - what a host sends another of packets like those of RoCEv2 without anything of ours.
 *
 * In:  address and port of this end, then of the other; whether messages of 64 KiB are SENDs or WRITEs;
 *      the path MTU. Out: the client prints how much payload reached the server, in MiB a second.
 *
 *     udp_trains server PORT ADDRESS
 *     udp_trains client send|write MTU PORT ADDRESS SERVER
 *
 * The datagrams are as many and as long as those of a requester: trains (UDP_SEGMENT) of packets with
 * header and ICRC, and of a WRITE the FIRST with one more, because it is longer. But all of it lies there
 * ready in one piece, nothing is computed, checked, acknowledged or copied to where it belongs. So it is
 * a bound for whoever sends such packets through sockets. Pinned by the caller.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp_end.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define MESSAGE	     65536
#define TRAIN_BYTES  (65535 - 20 - 8)
#define BTH_ICRC     16
#define RETH	     16
#define BUFFER	     (16 << 20)
#define RUN_NS	     INT64_C(1000000000)
#define SENDS_A_LOOK 16
#define SERVER_S     60
#define DATAGRAMS    8

struct train {
	unsigned packet, packets, last; /* bytes of each, how many, bytes of the last one */
};

static unsigned bytes_of(const struct train *train)
{
	return train->packet * (train->packets - 1) + train->last;
}

static int open_end(const char *port, const char *address)
{
	int fd = udp_end_open(port, address, 0), bytes = BUFFER, one = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	return fd;
}

/* Counts until a datagram of one byte asks how much it was. */
static void serve(int fd)
{
	static uint8_t data[65536];
	struct sockaddr_in from;
	struct timeval limit = { .tv_sec = SERVER_S };
	uint64_t bytes = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	puts("ready");
	fflush(stdout);
	for (;;) {
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *)&from, &len);

		if (n < 0)
			udp_end_fail("recvfrom");
		if (n == 1)
			break;
		bytes += (uint64_t)n;
	}
	if (sendto(fd, &bytes, sizeof(bytes), 0, (struct sockaddr *)&from, sizeof(from)) < 0)
		udp_end_fail("sendto");
}

/* How a message leaves: returns the number of trains. */
static unsigned plan(bool write, unsigned mtu, struct train *trains)
{
	unsigned left = MESSAGE / mtu, count = 0, packet = mtu + BTH_ICRC;

	if (write) { /* the first MIDDLE is the shorter end of the train that FIRST begins */
		trains[count++] = (struct train){ packet + RETH, 2, packet };
		left -= 2;
	}
	while (left) {
		unsigned packets = TRAIN_BYTES / packet;

		if (packets > left)
			packets = left;
		trains[count++] = (struct train){ packet, packets, packet };
		left -= packets;
	}
	/* of SENDs one message goes on where the other ends: full trains only */
	return write ? count : 1;
}

static void lay_out(struct mmsghdr *messages, struct iovec *iov, uint8_t *control, size_t control_bytes,
		    const struct train *trains, unsigned count, struct sockaddr_in *to)
{
	static uint8_t data[2 * MESSAGE];

	memset(data, 0x5a, sizeof(data));
	for (unsigned i = 0; i < count; i++) {
		uint16_t segment = (uint16_t)trains[i].packet;
		struct cmsghdr *c = (struct cmsghdr *)(void *)(control + i * control_bytes);

		iov[i] = (struct iovec){ data, bytes_of(&trains[i]) };
		messages[i].msg_hdr = (struct msghdr){ .msg_name = to, .msg_namelen = sizeof(*to),
						       .msg_iov = &iov[i], .msg_iovlen = 1 };
		if (trains[i].packets == 1)
			continue;
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(segment)),
				       .cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT };
		memcpy(CMSG_DATA(c), &segment, sizeof(segment));
		messages[i].msg_hdr.msg_control = c;
		messages[i].msg_hdr.msg_controllen = control_bytes;
	}
}

static uint64_t ask(int fd, const struct sockaddr_in *to)
{
	struct timeval limit = { .tv_sec = 1 };
	uint64_t bytes;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	for (int i = 0; i < 10; i++) {
		sendto(fd, "", 1, 0, (const struct sockaddr *)to, sizeof(*to));
		if (recv(fd, &bytes, sizeof(bytes), 0) == sizeof(bytes))
			return bytes;
	}
	udp_end_fail("the server does not answer");
}

static void send_all(int fd, bool write, unsigned mtu, struct sockaddr_in *to)
{
	enum { MOST = 8 };
	struct train trains[MOST + MESSAGE / 256];
	struct mmsghdr messages[MOST] = { 0 };
	struct iovec iov[MOST];
	_Alignas(struct cmsghdr) uint8_t control[MOST][CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	unsigned count = plan(write, mtu, trains);
	uint64_t payload = 0, wire = 0, arrived;
	int64_t start, took;

	if (count > MOST) {
		errno = EINVAL;
		udp_end_fail("MTU");
	}
	lay_out(messages, iov, control[0], sizeof(control[0]), trains, count, to);
	for (unsigned i = 0; i < count; i++) {
		payload += (uint64_t)trains[i].packets * mtu;
		wire += bytes_of(&trains[i]);
	}
	start = udp_end_now_ns();
	do {
		for (int i = 0; i < SENDS_A_LOOK; i++)
			if (sendmmsg(fd, messages, count, 0) != (int)count)
				udp_end_fail("sendmmsg");
		took = udp_end_now_ns() - start;
	} while (took < RUN_NS);
	arrived = ask(fd, to);
	printf("%.1f\n", (double)arrived / (double)wire * (double)payload / 1048576 * 1e9 /
				 (double)took);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to;

	if (argc == 4 && !strcmp(argv[1], "server")) {
		serve(open_end(argv[2], argv[3]));
		return 0;
	}
	if (argc != 7 || strcmp(argv[1], "client")) {
		fputs("usage: udp_trains server PORT ADDRESS\n"
		      "       udp_trains client send|write MTU PORT ADDRESS SERVER\n", stderr);
		return 2;
	}
	to = udp_end_address(argv[6], argv[4]);
	send_all(open_end(argv[4], argv[5]), !strcmp(argv[2], "write"), (unsigned)atoi(argv[3]), &to);
	return 0;
}
