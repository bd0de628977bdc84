/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP GSO batches - the throughput between two hosts of packets like RoCEv2's, without this
 * library.
 *
 * In:  address and port of this end, then of the other; whether messages of 64 KiB are SENDs or
 *      WRITEs; the path MTU.
 * Out: the client prints how much payload reached the server, in MiB a second.
 *
 *     udp_gso server PORT ADDRESS [icrc]
 *     udp_gso client send|write MTU PORT ADDRESS SERVER [icrc]
 *
 * The datagrams are as many and as long as those of a requester: GSO batches (UDP_SEGMENT) of
 * packets with header and ICRC, and for a WRITE one more batch with the FIRST, because it is
 * longer. But they are prepared in one piece, and the program computes, checks, acknowledges and
 * copies nothing. So the result is a bound for any program that sends such packets through sockets.
 *
 * With `icrc` the client puts each packet together and computes its ICRC, and the server checks it
 * and copies the payload to its place: all that RoCEv2 requires of any sender and receiver, still
 * without acknowledgements, windows, keys and completions. The caller pins both to processors.
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

#include "packet/icrc.h"
#include "udp_end.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define MESSAGE	     65536
#define BATCH_BYTES  (65535 - 20 - 8)
#define BTH	     12
#define BTH_ICRC     (BTH + ICRC_BYTES)
#define RETH	     16
#define BUFFER	     (16 << 20)
#define RUN_NS	     INT64_C(1000000000)
#define SENDS_A_LOOK 16
#define SERVER_S     60

struct batch {
	unsigned packet, packets, last; /* bytes of each, how many, bytes of the last one */
};

static struct icrc_memo memo;
static uint8_t message[MESSAGE]; /* the source, and the destination */

static unsigned bytes_of(const struct batch *batch)
{
	return batch->packet * (batch->packets - 1) + batch->last;
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

/* UDP_GRO's segment size; all bytes, if the kernel has merged no packets. */
static size_t segment_of(struct msghdr *received, size_t bytes)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(received); c; c = CMSG_NXTHDR(received, c)) {
		int size;

		if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&size, CMSG_DATA(c), sizeof(size));
		return (size_t)size;
	}
	return bytes;
}

/* Checks each packet, and appends its payload to the message. */
static void take(const struct icrc_path *path, const uint8_t *data, size_t bytes, size_t segment)
{
	static size_t at;
	uint16_t identification = 0;

	for (size_t done = 0; done < bytes; done += segment) {
		size_t length = bytes - done < segment ? bytes - done : segment;
		size_t payload = length - BTH_ICRC;

		if (!icrc_check(&memo, path, data + done, length, &identification)) {
			errno = EBADMSG;
			udp_end_fail("ICRC");
		}
		identification++;
		payload -= payload % 256; /* RETH */
		if (at + payload > MESSAGE)
			at = 0;
		memcpy(message + at, data + done + length - ICRC_BYTES - payload, payload);
		at += payload;
	}
}

/* Counts bytes until a datagram of one byte asks for the number. */
static void serve(int fd, bool icrc)
{
	static uint8_t data[65536];
	struct timeval limit = { .tv_sec = SERVER_S };
	struct sockaddr_in here, from;
	socklen_t len = sizeof(here);
	uint64_t bytes = 0;

	if (getsockname(fd, (struct sockaddr *)&here, &len))
		udp_end_fail("getsockname");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	puts("ready");
	fflush(stdout);
	for (;;) {
		_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
		struct iovec iov = { data, sizeof(data) };
		struct msghdr m = { .msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(fd, &m, 0);

		if (n < 0)
			udp_end_fail("recvmsg");
		if (n == 1)
			break;
		if (icrc) {
			struct icrc_path path = udp_end_path(&from, &here);

			take(&path, data, (size_t)n, segment_of(&m, (size_t)n));
		}
		bytes += (uint64_t)n;
	}
	if (sendto(fd, &bytes, sizeof(bytes), 0, (struct sockaddr *)&from, sizeof(from)) < 0)
		udp_end_fail("sendto");
}

/* Splits a message into GSO batches; returns how many. */
static unsigned plan(bool write, unsigned mtu, struct batch *batches)
{
	unsigned left = MESSAGE / mtu, count = 0, packet = mtu + BTH_ICRC;

	if (write) { /* the first MIDDLE is the shorter end of the GSO batch that FIRST begins */
		batches[count++] = (struct batch){ packet + RETH, 2, packet };
		left -= 2;
	}
	while (left) {
		unsigned packets = BATCH_BYTES / packet;

		if (packets > left)
			packets = left;
		batches[count++] = (struct batch){ packet, packets, packet };
		left -= packets;
	}
	/* a GSO batch of SENDs continues from one message to the next, so all are full */
	return write ? count : 1;
}

static uint8_t data[MESSAGE + MESSAGE / 256 * (BTH_ICRC + RETH)];

static void lay_out(struct mmsghdr *messages, struct iovec *iov, uint8_t *control,
		    size_t control_bytes, const struct batch *batches, unsigned count,
		    struct sockaddr_in *to)
{
	uint8_t *at = data;

	memset(data, 0x5a, sizeof(data));
	for (unsigned i = 0; i < count; i++) {
		uint16_t segment = (uint16_t)batches[i].packet;
		struct cmsghdr *c = (struct cmsghdr *)(void *)(control + i * control_bytes);

		iov[i] = (struct iovec){ at, bytes_of(&batches[i]) };
		at += iov[i].iov_len;
		messages[i].msg_hdr = (struct msghdr){ .msg_name = to,
						       .msg_namelen = sizeof(*to),
						       .msg_iov = &iov[i],
						       .msg_iovlen = 1 };
		if (batches[i].packets == 1)
			continue;
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(segment)),
				       .cmsg_level = IPPROTO_UDP,
				       .cmsg_type = UDP_SEGMENT };
		memcpy(CMSG_DATA(c), &segment, sizeof(segment));
		messages[i].msg_hdr.msg_control = c;
		messages[i].msg_hdr.msg_controllen = control_bytes;
	}
}

/* Puts the packets of a message together, in the places of lay_out. */
static void put_together(const struct icrc_path *path, const struct batch *batches, unsigned count,
			 unsigned mtu)
{
	static const uint8_t header[BTH + RETH] = { 0x07 };
	const uint8_t *from = message;
	uint8_t *at = data;

	for (unsigned i = 0; i < count; i++)
		for (unsigned k = 0; k < batches[i].packets; k++) {
			unsigned bytes =
				k + 1 < batches[i].packets ? batches[i].packet : batches[i].last;
			size_t header_bytes = bytes - mtu - ICRC_BYTES;
			struct iovec payload = { (void *)from, mtu };
			uint32_t icrc = icrc_compute(&memo, path, (uint16_t)k, header, header_bytes,
						     &payload, 1, 0);

			memcpy(at, header, header_bytes);
			memcpy(at + header_bytes, from, mtu);
			memcpy(at + header_bytes + mtu, &icrc, sizeof(icrc));
			at += bytes;
			from += mtu;
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

static void send_all(int fd, bool write, unsigned mtu, const struct icrc_path *path,
		     struct sockaddr_in *to)
{
	enum { MOST = 8 };
	struct batch batches[MOST + MESSAGE / 256];
	struct mmsghdr messages[MOST] = { 0 };
	struct iovec iov[MOST];
	_Alignas(struct cmsghdr) uint8_t control[MOST][CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	unsigned count = plan(write, mtu, batches);
	uint64_t payload = 0, wire = 0, arrived;
	int64_t start, took;

	if (count > MOST) {
		errno = EINVAL;
		udp_end_fail("MTU");
	}
	lay_out(messages, iov, control[0], sizeof(control[0]), batches, count, to);
	for (unsigned i = 0; i < count; i++) {
		payload += (uint64_t)batches[i].packets * mtu;
		wire += bytes_of(&batches[i]);
	}
	start = udp_end_now_ns();
	do {
		for (int i = 0; i < SENDS_A_LOOK; i++) {
			if (path)
				put_together(path, batches, count, mtu);
			if (sendmmsg(fd, messages, count, 0) != (int)count)
				udp_end_fail("sendmmsg");
		}
		took = udp_end_now_ns() - start;
	} while (took < RUN_NS);
	arrived = ask(fd, to);
	printf("%.1f\n",
	       (double)arrived / (double)wire * (double)payload / 1048576 * 1e9 / (double)took);
}

int main(int argc, char **argv)
{
	bool icrc = argc > 1 && !strcmp(argv[argc - 1], "icrc");
	struct sockaddr_in here, to;
	struct icrc_path path;

	argc -= icrc;
	icrc_init();
	if (argc == 4 && !strcmp(argv[1], "server")) {
		serve(open_end(argv[2], argv[3]), icrc);
		return 0;
	}
	if (argc != 7 || strcmp(argv[1], "client")) {
		fputs("usage: udp_gso server PORT ADDRESS [icrc]\n"
		      "       udp_gso client send|write MTU PORT ADDRESS SERVER [icrc]\n",
		      stderr);
		return 2;
	}
	here = udp_end_address(argv[5], argv[4]);
	to = udp_end_address(argv[6], argv[4]);
	path = udp_end_path(&here, &to);
	send_all(open_end(argv[4], argv[5]), !strcmp(argv[2], "write"), (unsigned)atoi(argv[3]),
		 icrc ? &path : NULL, &to);
	return 0;
}
