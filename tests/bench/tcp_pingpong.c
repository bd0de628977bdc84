/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP ping-pong - the latency of a message by a TCP connection between two hosts, without this
 * library.
 *
 * In:  port and address of the server. Both ends call recv() again and again, without Nagle's
 * delay. Out: the client prints the median one-way time in nanoseconds.
 *
 *     tcp_pingpong server PORT ADDRESS
 *     tcp_pingpong client PORT ADDRESS
 *
 * Messages have 8 bytes. The server ends with the client's connection, or after a minute. The
 * caller pins both to processors.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp_end.h"

#define TURNS	20000
#define WARM_UP 1000
#define WAIT_NS INT64_C(60000000000)

static void send_word(int fd, uint64_t word)
{
	if (send(fd, &word, sizeof(word), MSG_NOSIGNAL) != sizeof(word))
		udp_end_fail("send");
}

/* False: the other end has closed. */
static bool receive_word(int fd, uint64_t *word)
{
	int64_t until = udp_end_now_ns() + WAIT_NS;
	size_t got = 0;

	for (unsigned turn = 0; got < sizeof(*word); turn++) {
		ssize_t n = recv(fd, (char *)word + got, sizeof(*word) - got, MSG_DONTWAIT);

		if (n == 0)
			return false;
		if (n > 0)
			got += (size_t)n;
		else if (errno != EAGAIN && errno != EINTR)
			udp_end_fail("recv");
		if (turn % 4096 == 4095 && udp_end_now_ns() > until) {
			errno = ETIMEDOUT;
			udp_end_fail("the other end");
		}
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void serve(int listener)
{
	uint64_t word;
	int fd;

	if (listen(listener, 1))
		udp_end_fail("listen");
	printf("ready\n");
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)))
		udp_end_fail("accept");
	while (receive_word(fd, &word))
		send_word(fd, word);
	close(fd);
}

static void play(int fd, const struct sockaddr_in *server)
{
	static int64_t took[TURNS];

	if (connect(fd, (const struct sockaddr *)server, sizeof(*server)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)))
		udp_end_fail("connect");
	for (int i = 0; i < WARM_UP + TURNS; i++) {
		int64_t start = udp_end_now_ns();
		uint64_t word = (uint64_t)i;

		send_word(fd, word);
		if (!receive_word(fd, &word) || word != (uint64_t)i) {
			errno = EBADMSG;
			udp_end_fail("the answer");
		}
		if (i >= WARM_UP)
			took[i - WARM_UP] = udp_end_now_ns() - start;
	}
	qsort(took, TURNS, sizeof(*took), compare);
	printf("%.1f\n", (double)took[TURNS / 2] / 2);
}

int main(int argc, char **argv)
{
	bool is_client = argc == 4 && strcmp(argv[1], "client") == 0;
	struct sockaddr_in server;
	int fd, one = 1;

	if (!is_client && !(argc == 4 && strcmp(argv[1], "server") == 0)) {
		fprintf(stderr, "usage: tcp_pingpong server|client PORT ADDRESS\n");
		return 2;
	}
	server = udp_end_address(argv[3], argv[2]);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		udp_end_fail("socket");
	if (is_client) {
		play(fd, &server);
	} else {
		if (bind(fd, (struct sockaddr *)&server, sizeof(server)))
			udp_end_fail(argv[3]);
		serve(fd);
	}
	close(fd);
	return 0;
}
