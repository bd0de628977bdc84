/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP ping-pong - the latency of a message between two hosts, without this library.
 *
 * In:  address and port of this end, then of the other (the client begins), how to wait: "spin"
 *      calls recv() again and again, "sleep" blocks in epoll_wait() before each.
 * Out: the client prints the median one-way time in nanoseconds.
 *
 *     udp_pingpong server spin|sleep PORT ADDRESS [packets]
 *     udp_pingpong client spin|sleep PORT ADDRESS SERVER [packets]
 *
 * Messages have 8 bytes. The server ends when the client tells it to, or after a minute. The caller
 * pins both to processors.
 *
 * With `packets` each message goes in packets like RoCEv2's: a SEND and the acknowledgement of the
 * message that it answers, in one GSO batch, with ICRCs that are computed and checked. There are no
 * queues, keys or timers. So the result is a bound for any program that sends such packets through
 * sockets.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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

#define BTH	   12
#define AETH	   4
#define SEND_BYTES (BTH + sizeof(uint64_t) + ICRC_BYTES)
#define ACK_BYTES  (BTH + AETH + ICRC_BYTES)

#define TURNS	20000
#define WARM_UP 1000
#define END	UINT64_MAX
#define WAIT_NS INT64_C(60000000000)

struct end {
	int fd;
	int epoll; /* -1: spins */
	struct sockaddr_in here, other;
	bool packets;
	struct icrc_memo memo[2]; /* of sent packets, of received ones */
};

static void open_end(struct end *end, const char *how, const char *port, const char *address)
{
	struct epoll_event event = { .events = EPOLLIN };
	int one = 1;

	end->here = udp_end_address(address, port);
	end->fd = udp_end_open(port, address, SOCK_NONBLOCK);
	end->epoll = -1;
	if (strcmp(how, "sleep") == 0) {
		end->epoll = epoll_create1(EPOLL_CLOEXEC);
		if (end->epoll < 0 || epoll_ctl(end->epoll, EPOLL_CTL_ADD, end->fd, &event))
			udp_end_fail("epoll");
	}
	if (end->packets && setsockopt(end->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)))
		udp_end_fail("UDP_GRO");
}

static void seal(struct end *end, const struct icrc_path *path, uint16_t id, uint8_t *packet,
		 size_t bytes)
{
	uint32_t icrc =
		icrc_compute(&end->memo[0], path, id, packet, bytes - ICRC_BYTES, NULL, 0, 0);

	memcpy(packet + bytes - ICRC_BYTES, &icrc, sizeof(icrc));
}

static void send_packets(struct end *end, uint64_t word)
{
	uint8_t batch[SEND_BYTES + ACK_BYTES] = { 0x04 };
	struct icrc_path path = udp_end_path(&end->here, &end->other);
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	struct iovec iov = { batch, sizeof(batch) };
	struct msghdr m = { .msg_name = &end->other,
			    .msg_namelen = sizeof(end->other),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	uint16_t segment = SEND_BYTES;

	batch[SEND_BYTES] = 0x11;
	memcpy(batch + BTH, &word, sizeof(word));
	seal(end, &path, 0, batch, SEND_BYTES);
	seal(end, &path, 1, batch + SEND_BYTES, ACK_BYTES);
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(segment)),
			       .cmsg_level = IPPROTO_UDP,
			       .cmsg_type = UDP_SEGMENT };
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	if (sendmsg(end->fd, &m, 0) != sizeof(batch))
		udp_end_fail("sendmsg");
}

/* The packets of a GSO batch come one by one if GRO does not merge them. */
static bool receive_packets(struct end *end, uint64_t *word)
{
	uint8_t batch[SEND_BYTES + ACK_BYTES];
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { batch, sizeof(batch) };
	struct msghdr m = { .msg_name = &end->other,
			    .msg_namelen = sizeof(end->other),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(end->fd, &m, 0);
	struct icrc_path path;
	uint16_t id = 0;

	if (!n)
		errno = EAGAIN;
	if (n <= 0)
		return false;
	path = udp_end_path(&end->other, &end->here);
	for (size_t at = 0, bytes; at < (size_t)n; at += bytes, id++) {
		bytes = batch[at] == 0x11 ? ACK_BYTES : SEND_BYTES;
		if (at + bytes > (size_t)n ||
		    !icrc_check(&end->memo[1], &path, batch + at, bytes, &id)) {
			errno = EBADMSG;
			udp_end_fail("ICRC");
		}
	}
	memcpy(word, batch + BTH, sizeof(*word));
	errno = EAGAIN;
	return batch[0] != 0x11;
}

static void send_word(struct end *end, uint64_t word)
{
	if (end->packets)
		send_packets(end, word);
	else if (sendto(end->fd, &word, sizeof(word), 0, (struct sockaddr *)&end->other,
			sizeof(end->other)) != sizeof(word))
		udp_end_fail("sendto");
}

static uint64_t receive_word(struct end *end)
{
	socklen_t len = sizeof(end->other);
	struct epoll_event event;
	int64_t until = udp_end_now_ns() + WAIT_NS;
	uint64_t word;

	for (unsigned turn = 0;; turn++) {
		if (end->epoll >= 0)
			epoll_wait(end->epoll, &event, 1, 1000);
		if (end->packets ? receive_packets(end, &word)
				 : recvfrom(end->fd, &word, sizeof(word), 0,
					    (struct sockaddr *)&end->other, &len) == sizeof(word))
			return word;
		if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
			udp_end_fail("receive");
		if ((end->epoll >= 0 || turn % 4096 == 4095) && udp_end_now_ns() > until) {
			errno = ETIMEDOUT;
			udp_end_fail("the other end");
		}
	}
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void serve(struct end *end)
{
	uint64_t word;

	printf("ready\n");
	fflush(stdout);
	while ((word = receive_word(end)) != END)
		send_word(end, word);
}

static void play(struct end *end)
{
	static int64_t took[TURNS];

	for (int i = 0; i < WARM_UP + TURNS; i++) {
		int64_t start = udp_end_now_ns();

		send_word(end, (uint64_t)i);
		if (receive_word(end) != (uint64_t)i) {
			errno = EBADMSG;
			udp_end_fail("the answer");
		}
		if (i >= WARM_UP)
			took[i - WARM_UP] = udp_end_now_ns() - start;
	}
	send_word(end, END);
	qsort(took, TURNS, sizeof(*took), compare);
	printf("%.1f\n", (double)took[TURNS / 2] / 2);
}

int main(int argc, char **argv)
{
	bool packets = argc > 5 && strcmp(argv[argc - 1], "packets") == 0;
	struct end end = { .packets = packets };
	bool is_client;

	argc -= packets;
	is_client = argc == 6 && strcmp(argv[1], "client") == 0;
	icrc_init();
	if (!is_client && !(argc == 5 && strcmp(argv[1], "server") == 0)) {
		fprintf(stderr, "usage: udp_pingpong server|client spin|sleep PORT ADDRESS "
				"[SERVER] [packets]\n");
		return 2;
	}
	open_end(&end, argv[2], argv[3], argv[4]);
	if (is_client) {
		end.other = udp_end_address(argv[5], argv[3]);
		play(&end);
	} else {
		serve(&end);
	}
	return 0;
}
