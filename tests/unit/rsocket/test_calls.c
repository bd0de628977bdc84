/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of <rdma/rsocket.h>, both ends in one process, compared with what sockets do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static void there_and_back(void **state)
{
	char buffer[8] = "";
	int fds[2];

	make_pair(fds, 0);
	assert_int_equal(rsend(fds[0], "hello", 5, 0), 5);
	assert_int_equal(rrecv(fds[1], buffer, 2, MSG_PEEK), 2);
	assert_int_equal(rrecv(fds[1], buffer, sizeof(buffer), 0), 5);
	assert_memory_equal(buffer, "hello", 5);
	assert_int_equal(rwrite(fds[1], "back", 4), 4);
	assert_int_equal(rrecv(fds[0], buffer, 4, MSG_WAITALL), 4);
	assert_memory_equal(buffer, "back", 4);
	assert_int_equal(rrecv(fds[0], buffer, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close_pair(fds);
}

static void in_pieces(void **state)
{
	char a[3] = "", b[9] = "";
	struct iovec out[] = { { "one", 3 }, { "", 0 }, { "two", 3 }, { "three", 5 } };
	struct iovec in[] = { { a, 3 }, { b, 8 } };
	int fds[2];

	make_pair(fds, 0);
	assert_int_equal(rwritev(fds[0], out, 4), 11);
	wait_for(fds[1], POLLIN);
	assert_int_equal(rreadv(fds[1], in, 2), 11);
	assert_memory_equal(a, "one", 3);
	assert_string_equal(b, "twothree");
	close_pair(fds);
}

/* As TCP does, rsendmsg ignores a name; rsendto refuses it, as that of rdma-core does. */
static void named_on_a_stream(void **state)
{
	struct sockaddr_in name = loopback();
	struct iovec iov = { "x", 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_namelen = sizeof(name) };
	int fds[2];

	make_pair(fds, 0);
	assert_int_equal(rsendmsg(fds[0], &message, 0), 1);
	message.msg_name = &name;
	assert_int_equal(rsendmsg(fds[0], &message, 0), 1);
	assert_int_equal(rsendto(fds[0], "x", 1, 0, (struct sockaddr *)&name, sizeof(name)), -1);
	assert_int_equal(errno, EISCONN);
	close_pair(fds);
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 11));
}

/* More pieces than any message holds, empty ones among them, and what is looked at stays there. */
static void in_many_pieces(void **state)
{
	enum { PIECES = 1000, PIECE = 61 };
	static uint8_t out[PIECES * PIECE], in[PIECES * PIECE];
	static struct iovec outs[PIECES], ins[PIECES];
	struct msghdr message = { .msg_iov = outs, .msg_iovlen = PIECES };
	size_t length = 0;
	int fds[2];

	for (size_t i = 0; i < PIECES; i++) {
		outs[i] = (struct iovec){ out + length, i % PIECE };
		length += i % PIECE;
		ins[PIECES - 1 - i].iov_len = i % PIECE;
	}
	for (size_t i = 0, at = 0; i < PIECES; at += ins[i++].iov_len)
		ins[i].iov_base = in + at;
	for (size_t i = 0; i < length; i++)
		out[i] = byte_at(i);
	make_pair(fds, 0);
	assert_int_equal(rsendmsg(fds[0], &message, 0), length);
	wait_for(fds[1], POLLIN);
	assert_int_equal(rrecv(fds[1], in, 10, MSG_PEEK), 10);
	message = (struct msghdr){ .msg_iov = ins, .msg_iovlen = PIECES };
	assert_int_equal(rrecvmsg(fds[1], &message, MSG_WAITALL), length);
	assert_memory_equal(in, out, length);
	assert_int_equal(rrecv(fds[1], in, 1, MSG_PEEK | MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close_pair(fds);
}

/* Streams of bytes in both directions at once, by four threads. */
enum { STREAM_BYTES = 64 << 20 };

static void *write_all(void *arg)
{
	static const size_t sizes[] = { 1, 63, 64, 65, 1000, 4096, 16384, 65536, 100001, 300000 };
	uint8_t *buffer = malloc(300000);
	size_t done = 0, turn = 0;
	int fd = *(int *)arg;

	while (done < STREAM_BYTES) {
		size_t n = sizes[turn++ % 10];

		if (n > STREAM_BYTES - done)
			n = STREAM_BYTES - done;
		for (size_t i = 0; i < n; i++)
			buffer[i] = byte_at(done + i);
		if (rsend(fd, buffer, n, 0) != (ssize_t)n)
			break;
		done += n;
	}
	free(buffer);
	return (void *)done;
}

static void *read_all(void *arg)
{
	uint8_t *buffer = malloc(70001);
	size_t done = 0;
	int fd = *(int *)arg;

	while (done < STREAM_BYTES) {
		ssize_t n = rrecv(fd, buffer, 1 + done % 70001, 0);

		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			if (buffer[i] != byte_at(done + (size_t)i))
				goto out;
		done += (size_t)n;
	}
out:
	free(buffer);
	return (void *)done;
}

static void both_ways_at_once(void **state)
{
	pthread_t threads[4];
	int fds[2];

	make_pair(fds, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? write_all : read_all,
						&fds[i % 2]),
				 0);
	for (int i = 0; i < 4; i++) {
		void *done;

		pthread_join(threads[i], &done);
		assert_int_equal((size_t)done, STREAM_BYTES);
	}
	close_pair(fds);
}

/* A writer that is not read fills the buffers, then waits; nothing is lost. */
static void a_full_stream(void **state)
{
	static uint8_t chunk[10000], read[10000];
	size_t sent = 0, got = 0;
	ssize_t n;
	int fds[2];

	make_pair(fds, 0);
	assert_return_code(rfcntl(fds[0], F_SETFL, O_NONBLOCK), errno);
	assert_true(rfcntl(fds[0], F_GETFL) & O_NONBLOCK);
	while ((n = rsend(fds[0], chunk, sizeof(chunk), 0)) > 0)
		sent += (size_t)n;
	assert_int_equal(errno, EAGAIN);
	assert_in_range(sent, 64 << 10, 1 << 20);
	while (got < sent) {
		n = rrecv(fds[1], read, sizeof(read), 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
	wait_for(fds[0], POLLOUT);
	close_pair(fds);
}

static void half_closed(void **state)
{
	char buffer[8];
	int fds[2];

	make_pair(fds, 0);
	assert_int_equal(rsend(fds[0], "last", 4, 0), 4);
	assert_return_code(rshutdown(fds[0], SHUT_WR), errno);
	assert_int_equal(rsend(fds[0], "x", 1, 0), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(rrecv(fds[1], buffer, 8, MSG_WAITALL), 4);
	assert_int_equal(rrecv(fds[1], buffer, 8, 0), 0);
	assert_int_equal(rsend(fds[1], "answer", 6, 0), 6);
	assert_int_equal(rrecv(fds[0], buffer, 6, MSG_WAITALL), 6);
	assert_return_code(rshutdown(fds[1], SHUT_WR), errno);
	assert_int_equal(rrecv(fds[0], buffer, 8, 0), 0);
	close_pair(fds);
}

static void closed_with_data(void **state)
{
	struct pollfd poll;
	char buffer[8];
	int fds[2];

	make_pair(fds, 0);
	assert_int_equal(rsend(fds[0], "bye", 3, 0), 3);
	assert_return_code(rclose(fds[0]), errno);
	poll = (struct pollfd){ .fd = fds[1], .events = POLLIN };
	assert_int_equal(rpoll(&poll, 1, LONG_MS), 1);
	assert_int_equal(rrecv(fds[1], buffer, 8, 0), 3);
	assert_int_equal(rrecv(fds[1], buffer, 8, 0), 0);
	assert_int_equal(rsend(fds[1], "x", 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_return_code(rclose(fds[1]), errno);
}

static void nobody_listens(void **state)
{
	struct sockaddr_in addr;
	int fd = make_listener(&addr), error = 0;
	socklen_t length = sizeof(error);

	rclose(fd);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rclose(fd);
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), -1);
	error = errno; /* the answer may be there already */
	if (error == EINPROGRESS) {
		wait_for(fd, POLLOUT);
		assert_return_code(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), errno);
	}
	assert_int_equal(error, ECONNREFUSED);
	rclose(fd);
}

static void with_other_descriptors(void **state)
{
	struct timeval soon = { .tv_usec = 20000 }, later = { .tv_sec = 20 };
	fd_set reads, writes;
	int fds[2], tube[2], top;

	make_pair(fds, 0);
	assert_return_code(pipe(tube), errno);
	top = (tube[0] > fds[1] ? tube[0] : fds[1]) + 1;
	FD_ZERO(&reads);
	FD_SET(fds[1], &reads);
	FD_SET(tube[0], &reads);
	assert_int_equal(rselect(top, &reads, NULL, NULL, &soon), 0);
	assert_false(FD_ISSET(fds[1], &reads));
	assert_int_equal(write(tube[1], "x", 1), 1);
	FD_SET(fds[1], &reads);
	FD_SET(tube[0], &reads);
	assert_int_equal(rselect(top, &reads, NULL, NULL, &later), 1);
	assert_true(FD_ISSET(tube[0], &reads));
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	wait_for(fds[1], POLLIN);
	FD_ZERO(&writes);
	FD_SET(fds[1], &reads);
	FD_SET(tube[0], &reads);
	FD_SET(fds[1], &writes);
	assert_int_equal(rselect(top, &reads, &writes, NULL, NULL), 3);
	close(tube[0]);
	close(tube[1]);
	close_pair(fds);
}

static void *read_one(void *arg)
{
	char byte;

	return (void *)rrecv(*(int *)arg, &byte, 1, 0);
}

/* Each of two threads that sleep for one rsocket gets what it waits for. */
static void two_sleepers(void **state)
{
	pthread_t reader;
	void *got;
	int fds[2];

	make_pair(fds, 0);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(pthread_create(&reader, NULL, read_one, &fds[1]), 0);
		if (i % 2)
			usleep(200);
		assert_int_equal(rsend(fds[0], "xy", 2, 0), 2);
		wait_for(fds[1], POLLOUT);
		pthread_join(reader, &got);
		assert_int_equal((ssize_t)got, 1);
		assert_int_equal((ssize_t)read_one(&fds[1]), 1);
	}
	close_pair(fds);
}

static void *read_byte(void *fd)
{
	char byte;

	return (void *)(intptr_t)rrecv((int)(intptr_t)fd, &byte, 1, 0);
}

static int64_t cpu_us(const struct rusage *used)
{
	return (used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1000000 + used->ru_utime.tv_usec +
	       used->ru_stime.tv_usec;
}

/* Threads that sleep for one rsocket do not wake each other for nothing. */
static void sleepers_sleep(void **state)
{
	enum { READERS = 12 };
	pthread_t readers[READERS];
	struct rusage before, after;
	int fds[2];
	void *got;

	make_pair(fds, 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(
			pthread_create(&readers[i], NULL, read_byte, (void *)(intptr_t)fds[1]), 0);
	usleep(200 * MS);
	assert_int_equal(rsend(fds[0], "1", 1, 0), 1);
	usleep(200 * MS);
	getrusage(RUSAGE_SELF, &before);
	usleep(500 * MS);
	getrusage(RUSAGE_SELF, &after);
	assert_in_range(cpu_us(&after) - cpu_us(&before), 0, 250 * MS);
	assert_int_equal(rsend(fds[0], "23456789abc", 11, 0), 11);
	for (int i = 0; i < READERS; i++) {
		assert_int_equal(pthread_join(readers[i], &got), 0);
		assert_int_equal((intptr_t)got, 1);
	}
	close_pair(fds);
}

static void closed_under_a_reader(void **state)
{
	pthread_t reader;
	void *got;
	int fds[2];

	make_pair(fds, 0);
	assert_int_equal(pthread_create(&reader, NULL, read_one, &fds[1]), 0);
	usleep(20000);
	assert_return_code(rclose(fds[1]), errno);
	pthread_join(reader, &got);
	assert_true((ssize_t)got <= 0);
	assert_return_code(rclose(fds[0]), errno);
}

static void mapped(void **state)
{
	static char memory[100000], data[100000], byte;
	int fds[2];

	make_pair(fds, 4);
	memset(data, 'd', sizeof(data));
	assert_int_equal(riomap(fds[1], memory, sizeof(memory), PROT_WRITE, 0, 4096), 4096);
	assert_int_equal(rsend(fds[1], "m", 1, 0), 1);
	assert_int_equal(rrecv(fds[0], &byte, 1, 0), 1);
	assert_int_equal(riowrite(fds[0], data, sizeof(data), 4096, 0), sizeof(data));
	assert_int_equal(rsend(fds[0], "w", 1, 0), 1);
	assert_int_equal(rrecv(fds[1], &byte, 1, 0), 1);
	assert_memory_equal(memory, data, sizeof(data));
	assert_int_equal(riowrite(fds[0], data, 1, 0, 0), 0);
	assert_return_code(riounmap(fds[1], memory, sizeof(memory)), errno);
	assert_int_equal(riounmap(fds[1], memory, sizeof(memory)), -1);
	assert_int_equal(rsend(fds[1], "u", 1, 0), 1);
	assert_int_equal(rrecv(fds[0], &byte, 1, 0), 1);
	assert_int_equal(riowrite(fds[0], data, 1, 4096, 0), 0);
	close_pair(fds);
}

static void options(void **state)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 3 }, got = { 0 };
	int on = 1, value = 0, fd = rsocket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(value);

	static const int rows[][2] = {
		{ SOL_SOCKET, SO_REUSEADDR },
		{ SOL_SOCKET, SO_OOBINLINE },
		{ SOL_SOCKET, SO_KEEPALIVE },
		{ IPPROTO_TCP, TCP_NODELAY },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_return_code(rsetsockopt(fd, rows[i][0], rows[i][1], &on, sizeof(on)), errno);
		assert_return_code(rgetsockopt(fd, rows[i][0], rows[i][1], &value, &length), errno);
		assert_int_equal(value, 1);
	}
	value = 100000;
	assert_return_code(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof(value)), errno);
	assert_return_code(rgetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &length), errno);
	assert_int_equal(value, 200000);
	assert_return_code(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), errno);
	length = sizeof(got);
	assert_return_code(rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &length), errno);
	assert_int_equal(got.l_linger, 3);
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rsetsockopt(fd, 12345, 1, &on, sizeof(on)), -1);
	assert_int_equal(errno, ENOPROTOOPT);
	rclose(fd);
	assert_int_equal(rsocket(AF_UNIX, SOCK_STREAM, 0), -1);
	assert_int_equal(rsend(12345, "", 1, 0), -1);
	assert_int_equal(errno, EBADF);
}

static void keeps_alive(void **state)
{
	int on = 1, one_s = 1, fds[2];
	char byte;

	make_pair(fds, 0);
	assert_return_code(rsetsockopt(fds[0], IPPROTO_TCP, TCP_KEEPIDLE, &one_s, sizeof(one_s)),
			   errno);
	assert_return_code(rsetsockopt(fds[0], SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), errno);
	usleep(2200 * 1000);
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	assert_int_equal(rrecv(fds[1], &byte, 1, 0), 1);
	close_pair(fds);
}

/* The child has none of them, and does the parent's no harm. */
static void in_a_child(void **state)
{
	int fds[2], status;
	char byte;
	pid_t child;

	make_pair(fds, 0);
	child = fork();
	if (!child) {
		bool fails = rsend(fds[0], "x", 1, 0) == -1 && errno == EBADF;

		_exit(fails && !rclose(fds[0]) && rclose(fds[0]) == -1 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	assert_int_equal(rrecv(fds[1], &byte, 1, 0), 1);
	close_pair(fds);
}

/* They need UD, which iWARP has not. */
static bool has_datagrams(void)
{
	const char *transport = getenv("VERBATIM_TRANSPORT");

	return !transport || strcmp(transport, "iwarp") != 0;
}

static int datagram(struct sockaddr_in *addr)
{
	socklen_t length = sizeof(*addr);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	*addr = loopback();
	assert_true(fd >= 0);
	assert_return_code(rbind(fd, (struct sockaddr *)addr, sizeof(*addr)), errno);
	assert_return_code(rgetsockname(fd, (struct sockaddr *)addr, &length), errno);
	return fd;
}

static void datagrams(void **state)
{
	static const size_t sizes[] = { 1, 64, 65, 1000, 2000, 2040, 2041, 9000, 40000 };
	static uint8_t out[40000], in[40001];
	struct sockaddr_in here, there, from;
	socklen_t length;
	int a, b;

	if (!has_datagrams())
		skip();
	a = datagram(&here);
	b = datagram(&there);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = byte_at(i);
	for (int turn = 0; turn < 3; turn++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			assert_int_equal(rsendto(a, out, sizes[i], 0, (struct sockaddr *)&there,
						 sizeof(there)),
					 sizes[i]);
			wait_for(b, POLLIN);
			length = sizeof(from);
			memset(in, 0, sizeof(in));
			assert_int_equal(
				rrecvfrom(b, in, sizeof(in), 0, (struct sockaddr *)&from, &length),
				sizes[i]);
			assert_memory_equal(in, out, sizes[i]);
			assert_int_equal(from.sin_port, here.sin_port);
			assert_int_equal(from.sin_addr.s_addr, here.sin_addr.s_addr);
		}
		/* and back, connected */
		assert_return_code(rconnect(b, (struct sockaddr *)&here, sizeof(here)), errno);
		assert_int_equal(rsend(b, "back", 4, 0), 4);
		wait_for(a, POLLIN);
		assert_int_equal(rrecv(a, in, 2, 0), 2);
	}
	assert_int_equal(rrecv(a, in, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	rclose(a);
	rclose(b);
}

/* A new thread has no descriptor to be woken by, and gets none. */
static void read_without_descriptors(int fd, void (*send_one)(void *arg), void *arg)
{
	struct rlimit before, none;
	pthread_t reader;
	void *got;

	assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
	none = before;
	none.rlim_cur = STDERR_FILENO + 1;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &none), errno);
	assert_int_equal(dup(STDERR_FILENO), -1);
	assert_int_equal(pthread_create(&reader, NULL, read_one, &fd), 0);
	usleep(20000);
	send_one(arg);
	pthread_join(reader, &got);
	assert_int_equal((ssize_t)got, 1);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
}

static void send_to_peer(void *arg)
{
	assert_int_equal(rsend(*(int *)arg, "x", 1, 0), 1);
}

/* rsendto names the receiver, whomever the rsocket is connected to. */
static void datagrams_beside_the_connection(void **state)
{
	struct sockaddr_in from, first, second;
	int fd, one, two;
	char byte = 0;

	if (!has_datagrams())
		skip();
	fd = datagram(&from);
	one = datagram(&first);
	two = datagram(&second);
	assert_return_code(rconnect(fd, (struct sockaddr *)&first, sizeof(first)), errno);
	assert_int_equal(rsendto(fd, "2", 1, 0, (struct sockaddr *)&second, sizeof(second)), 1);
	wait_for(two, POLLIN);
	assert_int_equal(rrecv(two, &byte, 1, 0), 1);
	assert_int_equal(byte, '2');
	assert_int_equal(rrecv(one, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(rsend(fd, "1", 1, 0), 1);
	assert_int_equal(rrecv(one, &byte, 1, 0), 1);
	assert_int_equal(byte, '1');
	rclose(fd);
	rclose(one);
	rclose(two);
}

static void without_descriptors(void **state)
{
	int fds[2];

	make_pair(fds, 0);
	read_without_descriptors(fds[1], send_to_peer, &fds[0]);
	close_pair(fds);
}

static void datagrams_without_descriptors(void **state)
{
	struct sockaddr_in here, there;
	int a, b;

	if (!has_datagrams())
		skip();
	a = datagram(&here);
	b = datagram(&there);
	assert_return_code(rconnect(a, (struct sockaddr *)&there, sizeof(there)), errno);
	assert_int_equal(rsend(a, "x", 1, 0), 1);
	wait_for(b, POLLIN);
	assert_int_equal((ssize_t)read_one(&b), 1);
	read_without_descriptors(b, send_to_peer, &a);
	rclose(a);
	rclose(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(in_many_pieces),
		cmocka_unit_test(named_on_a_stream),
		cmocka_unit_test(both_ways_at_once),
		cmocka_unit_test(a_full_stream),
		cmocka_unit_test(half_closed),
		cmocka_unit_test(closed_with_data),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(with_other_descriptors),
		cmocka_unit_test(two_sleepers),
		cmocka_unit_test(sleepers_sleep),
		cmocka_unit_test(closed_under_a_reader),
		cmocka_unit_test(mapped),
		cmocka_unit_test(options),
		cmocka_unit_test(keeps_alive),
		cmocka_unit_test(in_a_child),
		cmocka_unit_test(datagrams),
		cmocka_unit_test(datagrams_beside_the_connection),
		cmocka_unit_test(without_descriptors),
		cmocka_unit_test(datagrams_without_descriptors),
	};

	/* The parent may have set SIG_IGN: then waitpid would find no child. */
	signal(SIGCHLD, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
