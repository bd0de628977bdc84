/*
 * UDP ping-pong - what a message from one host to another costs without anything of ours.
 *
 * In:  address and port of this end, then of the other (the client begins), how to wait: "spin"
 * calls recv() again and again, "sleep" blocks in epoll_wait() before each. Out: the client prints
 * the median one-way time in nanoseconds.
 *
 *     udp_pingpong server spin|sleep PORT ADDRESS
 *     udp_pingpong client spin|sleep PORT ADDRESS SERVER
 *
 * Messages have 8 bytes. The server ends when the client says so, or after a minute. Pinned by the
 * caller.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp_end.h"

#define TURNS	20000
#define WARM_UP 1000
#define END	UINT64_MAX
#define WAIT_NS INT64_C(60000000000)

struct end {
	int fd;
	int epoll; /* -1: spins */
	struct sockaddr_in other;
};

static void open_end(struct end *end, const char *how, const char *port, const char *address)
{
	struct epoll_event event = { .events = EPOLLIN };

	end->fd = udp_end_open(port, address, SOCK_NONBLOCK);
	end->epoll = -1;
	if (strcmp(how, "sleep") == 0) {
		end->epoll = epoll_create1(EPOLL_CLOEXEC);
		if (end->epoll < 0 || epoll_ctl(end->epoll, EPOLL_CTL_ADD, end->fd, &event))
			udp_end_fail("epoll");
	}
}

static void send_word(struct end *end, uint64_t word)
{
	if (sendto(end->fd, &word, sizeof(word), 0, (struct sockaddr *)&end->other,
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
		if (recvfrom(end->fd, &word, sizeof(word), 0, (struct sockaddr *)&end->other,
			     &len) == sizeof(word))
			return word;
		if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
			udp_end_fail("recvfrom");
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
	bool is_client = argc == 6 && strcmp(argv[1], "client") == 0;
	struct end end;

	if (!is_client && !(argc == 5 && strcmp(argv[1], "server") == 0)) {
		fprintf(stderr,
			"usage: udp_pingpong server|client spin|sleep PORT ADDRESS [SERVER]\n");
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
