/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What sockets of NETLINK_RDMA and others do while libverbatim-sysfs.so is loaded before the C
 * library. This program does not know that library.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Of glibc, for programs built with _FORTIFY_SOURCE; no header has them. */
ssize_t __recv_chk(int fd, void *bytes, size_t len, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *bytes, size_t len, size_t room, int flags, void *from,
		       socklen_t *from_len);

#define ASKED 1000
#define FORKS 200

struct dump {
	struct nlmsghdr header;
	struct rtgenmsg family; /* of NETLINK_ROUTE; others ignore it */
};

static struct dump dump_of(uint16_t type, uint32_t seq)
{
	return (struct dump){ .header = { .nlmsg_len = sizeof(struct dump),
					  .nlmsg_type = type,
					  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
					  .nlmsg_seq = seq } };
}

static int open_rdma(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	return fd;
}

static uint32_t port_of(int fd)
{
	struct sockaddr_nl own;
	socklen_t len = sizeof(own);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	return own.nl_pid;
}

static void ask_devices(int fd, uint32_t seq)
{
	struct dump dump = dump_of(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), seq);

	assert_int_equal(send(fd, &dump, sizeof(dump), 0), sizeof(dump));
}

/* One device, then the end of the dump. */
static void is_answer(int fd, const char *bytes, ssize_t len, uint32_t seq)
{
	const struct nlmsghdr *message = (const void *)bytes;

	assert_true(len > NLMSG_HDRLEN && message->nlmsg_len < len);
	assert_int_equal(message->nlmsg_seq, seq);
	assert_int_equal(message->nlmsg_pid, port_of(fd));
	assert_int_equal(message->nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
	message = (const void *)(bytes + NLMSG_ALIGN(message->nlmsg_len));
	assert_int_equal(message->nlmsg_type, NLMSG_DONE);
}

/* Each way to send and to receive. */
static void asks_for_devices(void **state)
{
	struct dump dump = dump_of(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), 1);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK }, from = { .nl_pid = 1 };
	struct iovec halves[] = { { &dump, 6 }, { (char *)&dump + 6, sizeof(dump) - 6 } }, whole;
	struct msghdr sent = { .msg_iov = halves, .msg_iovlen = 2 }, message;
	struct pollfd poll_fd = { open_rdma(), POLLIN, 0 };
	int fd = poll_fd.fd;
	socklen_t from_len = sizeof(from);
	_Alignas(4) char bytes[4096];
	ssize_t len;

	assert_int_equal(bind(fd, (struct sockaddr *)&kernel, sizeof(kernel)), 0);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	assert_int_equal(sendmsg(fd, &sent, 0), sizeof(dump));
	assert_int_equal(poll(&poll_fd, 1, 0), 1);

	len = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_PEEK), len);
	is_answer(fd, bytes, len, 1);
	whole = (struct iovec){ bytes, sizeof(bytes) };
	message = (struct msghdr){
		.msg_iov = &whole, .msg_iovlen = 1, .msg_name = &from, .msg_namelen = sizeof(from)
	};
	assert_int_equal(recvmsg(fd, &message, 0), len);
	assert_int_equal(message.msg_namelen, sizeof(from));
	assert_memory_equal(&from, &kernel, sizeof(from));
	is_answer(fd, bytes, len, 1);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);

	from.nl_pid = 1;
	dump.header.nlmsg_seq = 2;
	assert_int_equal(sendto(fd, &dump, sizeof(dump), 0, (void *)&kernel, sizeof(kernel)),
			 sizeof(dump));
	assert_int_equal(recvfrom(fd, bytes, sizeof(bytes), 0, (void *)&from, &from_len), len);
	assert_memory_equal(&from, &kernel, sizeof(from));
	is_answer(fd, bytes, len, 2);
	ask_devices(fd, 3);
	assert_int_equal(__recv_chk(fd, bytes, sizeof(bytes), sizeof(bytes), 0), len);
	ask_devices(fd, 4);
	assert_int_equal(
		__recvfrom_chk(fd, bytes, sizeof(bytes), sizeof(bytes), 0, &from, &from_len), len);
	is_answer(fd, bytes, len, 4);
	ask_devices(fd, 5);
	assert_int_equal(read(fd, bytes, sizeof(bytes)), len);
	is_answer(fd, bytes, len, 5);
	close(fd);
}

/* What the socket has no room for waits, and comes in its order, whichever call receives. */
static void answers_wait(void **state)
{
	int fd = open_rdma(), small = 1;
	struct pollfd poll_fd = { fd, POLLIN, 0 };
	_Alignas(4) char bytes[4096];
	uint32_t seq = 0;
	ssize_t len;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (uint32_t i = 1; i <= ASKED; i++)
		ask_devices(fd, i);
	/* read is not interposed, so it does not go on */
	while ((len = read(fd, bytes, sizeof(bytes))) > 0)
		is_answer(fd, bytes, len, ++seq);
	assert_in_range(seq, 1, ASKED / 2);
	while ((len = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
		is_answer(fd, bytes, len, ++seq);
		assert_int_equal(poll(&poll_fd, 1, 0), seq < ASKED);
	}
	assert_int_equal(seq, ASKED);
	close(fd);
}

/* Nobody else can put anything there, not even before the first request. */
static void answers_are_genuine(void **state)
{
	struct sockaddr_nl to = { .nl_family = AF_NETLINK };
	int fd = open_rdma(), other = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
	_Alignas(4) char bytes[4096];

	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	to.nl_pid = port_of(fd);
	assert_int_equal(sendto(other, "early", 6, 0, (void *)&to, sizeof(to)), 6);
	ask_devices(fd, 1);
	assert_int_equal(sendto(other, "late", 5, 0, (void *)&to, sizeof(to)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	is_answer(fd, bytes, recv(fd, bytes, sizeof(bytes), 0), 1);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	close(other);
	close(fd);
}

/* The number of one that was closed is another socket's. */
static void other_sockets(void **state)
{
	int fd = open_rdma(), pair[2];
	struct dump dump = dump_of(RTM_GETLINK, 1);
	_Alignas(4) char bytes[8192];
	const struct nlmsghdr *message = (void *)bytes;

	close(fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(pair[0], fd);
	assert_int_equal(send(pair[0], "x", 1, 0), 1);
	assert_int_equal(recv(pair[1], bytes, sizeof(bytes), 0), 1);
	close(pair[0]);
	close(pair[1]);

	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	assert_int_equal(send(fd, &dump, sizeof(dump), 0), sizeof(dump));
	assert_true(recv(fd, bytes, sizeof(bytes), 0) > NLMSG_HDRLEN);
	assert_int_equal(message->nlmsg_type, RTM_NEWLINK);
	close(fd);
}

static atomic_bool has_ended;

static void *receive_nothing(void *arg)
{
	int fd = open_rdma();
	char byte;

	while (!has_ended)
		assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	close(fd);
	return NULL;
}

/* Children of a process that has another thread there. */
static void forks(void **state)
{
	int fd = open_rdma(), status;
	_Alignas(4) char bytes[4096];
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, receive_nothing, NULL), 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();

		if (child == 0) {
			alarm(10);
			ask_devices(fd, 1);
			is_answer(fd, bytes, recv(fd, bytes, sizeof(bytes), 0), 1);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	has_ended = true;
	pthread_join(thread, NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asks_for_devices),
		cmocka_unit_test(answers_wait),
		cmocka_unit_test(answers_are_genuine),
		cmocka_unit_test(other_sockets),
		cmocka_unit_test(forks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
