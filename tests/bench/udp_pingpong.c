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
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TURNS	20000
#define WARM_UP 1000
#define END	UINT64_MAX
#define WAIT_NS INT64_C(60000000000)

struct end {
	int fd;
	int epoll; /* -1: spins */
	struct sockaddr_in other;
};

static void fail(const char *what)
{
	fprintf(stderr, "udp_pingpong: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct sockaddr_in address_of(const char *address, const char *port)
{
	struct sockaddr_in out = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, address, &out.sin_addr) != 1) {
		errno = EINVAL;
		fail(address);
	}
	return out;
}

static void open_end(struct end *end, const char *how, const char *port, const char *address)
{
	struct sockaddr_in ours = address_of(address, port);
	struct epoll_event event = { .events = EPOLLIN };

	end->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (end->fd < 0 || bind(end->fd, (struct sockaddr *)&ours, sizeof(ours)))
		fail(address);
	end->epoll = -1;
	if (strcmp(how, "sleep") == 0) {
		end->epoll = epoll_create1(EPOLL_CLOEXEC);
		if (end->epoll < 0 || epoll_ctl(end->epoll, EPOLL_CTL_ADD, end->fd, &event))
			fail("epoll");
	}
}

static void send_word(struct end *end, uint64_t word)
{
	if (sendto(end->fd, &word, sizeof(word), 0, (struct sockaddr *)&end->other,
		   sizeof(end->other)) != sizeof(word))
		fail("sendto");
}

static uint64_t receive_word(struct end *end)
{
	socklen_t len = sizeof(end->other);
	struct epoll_event event;
	int64_t until = now_ns() + WAIT_NS;
	uint64_t word;

	for (unsigned turn = 0;; turn++) {
		if (end->epoll >= 0)
			epoll_wait(end->epoll, &event, 1, 1000);
		if (recvfrom(end->fd, &word, sizeof(word), 0, (struct sockaddr *)&end->other,
			     &len) == sizeof(word))
			return word;
		if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
			fail("recvfrom");
		if ((end->epoll >= 0 || turn % 4096 == 4095) && now_ns() > until) {
			errno = ETIMEDOUT;
			fail("the other end");
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
		int64_t start = now_ns();

		send_word(end, (uint64_t)i);
		if (receive_word(end) != (uint64_t)i) {
			errno = EBADMSG;
			fail("the answer");
		}
		if (i >= WARM_UP)
			took[i - WARM_UP] = now_ns() - start;
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
		end.other = address_of(argv[5], argv[3]);
		play(&end);
	} else {
		serve(&end);
	}
	return 0;
}
