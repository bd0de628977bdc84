/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_send with each error of the kernel: the linker puts a syscall(2) of this test before the real
 * one (--wrap), whose sendmmsg and sendmsg fail as the case says.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "net.h"
#include "system_call.h"
#include "udp/udp.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#define PACKETS 10

static struct {
	int batch_error; /* of each GSO batch; 0: it is sent */
	int error;	 /* of any message after `after` of them have left */
	int after;
	int times; /* how often it fails */
	int left;  /* messages */
} kernel;

static bool is_batch(struct msghdr *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT)
			return true;
	return false;
}

static int send_some(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	for (unsigned i = 0; i < count; i++) {
		int error = 0;

		if (kernel.batch_error && is_batch(&messages[i].msg_hdr))
			error = kernel.batch_error;
		else if (kernel.error && kernel.left >= kernel.after && kernel.times > 0)
			error = kernel.error;
		if (error && i)
			return (int)i;
		if (error) {
			kernel.times -= !kernel.batch_error || !is_batch(&messages[i].msg_hdr);
			errno = error;
			return -1;
		}
		if (__real_syscall(SYS_sendmmsg, fd, messages + i, 1, flags) != 1)
			return i ? (int)i : -1;
		kernel.left++;
	}
	return (int)count;
}

static ssize_t send_one(int fd, const struct msghdr *message, int flags)
{
	struct mmsghdr one = { .msg_hdr = *message };

	return send_some(fd, &one, 1, flags) == 1 ? (ssize_t)one.msg_len : -1;
}

long __wrap_syscall(long number, ...)
{
	long a[SYSTEM_CALL_ARGUMENTS];
	va_list args;

	va_start(args, number);
	system_call_arguments(args, a);
	va_end(args);
	if (number == SYS_sendmmsg)
		return send_some((int)a[0], (struct mmsghdr *)a[1], (unsigned)a[2], (int)a[3]);
	if (number == SYS_sendmsg)
		return send_one((int)a[0], (const struct msghdr *)a[1], (int)a[2]);
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static struct wire_port *from, *to;
static struct wire_flow flow;
static uint8_t payload[2000];
static unsigned arrived;

static void count_in_order(const struct wire_arrival *a)
{
	assert_int_equal(a->bytes[0], arrived);
	arrived++;
}

/* Ten packets; the sizes change in the middle: two GSO batches, or ten packets. */
static enum wire_result send_ten(unsigned *sent)
{
	struct wire_packet packets[PACKETS] = { 0 };
	enum wire_result result;

	for (unsigned i = 0; i < PACKETS; i++) {
		packets[i].header_bytes = 12;
		packets[i].header[0] = (uint8_t)i;
		packets[i].payload_bytes = i < 5 ? 1000 : 1200;
		packets[i].pieces = 1;
		packets[i].piece[0] = (struct iovec){ payload, packets[i].payload_bytes };
	}
	arrived = 0;
	kernel.left = 0;
	result = udp_send(&flow, packets, PACKETS, sent);
	while (udp_receive(to, 0, count_in_order) > 0)
		;
	assert_int_equal(arrived, *sent);
	return result;
}

static int setup(void **state)
{
	uint8_t gid[WIRE_GID_BYTES];

	memset(&kernel, 0, sizeof(kernel));
	net_address(false, 11, gid);
	if (udp_open(net_bind(gid, WIRE_UDP_PORT), gid, 0, &from))
		return -1;
	net_address(false, 12, gid);
	if (udp_open(net_bind(gid, WIRE_UDP_PORT), gid, 0, &to))
		return -1;
	flow = (struct wire_flow){ .port = from, .sender = udp_sender(from, 0), .hop_limit = 64 };
	memcpy(flow.remote, gid, sizeof(gid));
	return 0;
}

static int teardown(void **state)
{
	udp_close(from);
	udp_close(to);
	return 0;
}

/* No checksum offload, or no such option: packet by packet from then on. */
static void test_no_gso(void **state)
{
	static const int errors[] = { EIO, ENOPROTOOPT, EOPNOTSUPP };
	unsigned sent;

	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		atomic_store(&from->segments, true);
		kernel.batch_error = errors[i];
		assert_int_equal(send_ten(&sent), WIRE_SENT);
		assert_int_equal(sent, PACKETS);
		assert_int_equal(kernel.left, PACKETS);
		assert_false(atomic_load(&from->segments));
	}
	kernel.batch_error = 0;
	assert_int_equal(send_ten(&sent), WIRE_SENT);
	assert_int_equal(kernel.left, PACKETS);
}

/* EINVAL may mean one packet that is too long: GSO batches are tried again. */
static void test_invalid_batch(void **state)
{
	unsigned sent;

	kernel.batch_error = EINVAL;
	assert_int_equal(send_ten(&sent), WIRE_SENT);
	assert_int_equal(kernel.left, PACKETS);
	kernel.batch_error = 0;
	assert_int_equal(send_ten(&sent), WIRE_SENT);
	assert_int_equal(kernel.left, 2);

	kernel.batch_error = EINVAL;
	kernel.error = EMSGSIZE;
	kernel.after = 7;
	kernel.times = 1;
	assert_int_equal(send_ten(&sent), WIRE_TOO_LONG);
	assert_int_equal(sent, 7);
}

static void test_results(void **state)
{
	static const struct {
		int error;
		enum wire_result result;
	} rows[] = {
		{ EAGAIN, WIRE_FULL },		 { ENOBUFS, WIRE_FULL },
		{ ENOMEM, WIRE_FULL },		 { EFAULT, WIRE_FAULT },
		{ EMSGSIZE, WIRE_TOO_LONG },	 { ENETUNREACH, WIRE_NO_ROUTE },
		{ EHOSTUNREACH, WIRE_NO_ROUTE }, { EADDRNOTAVAIL, WIRE_NO_ROUTE },
		{ ENETDOWN, WIRE_NO_ROUTE },	 { EPERM, WIRE_NO_ROUTE },
		{ EINVAL, WIRE_NO_ROUTE },
	};
	unsigned sent;

	atomic_store(&from->segments, false);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int after = 0; after < PACKETS; after += 3) {
			kernel.error = rows[i].error;
			kernel.after = after;
			kernel.times = 1;
			assert_int_equal(send_ten(&sent), rows[i].result);
			assert_int_equal(sent, after);
		}
	}
	/* of GSO batches: all of one or nothing */
	atomic_store(&from->segments, true);
	kernel.error = ENOBUFS;
	kernel.after = 1;
	kernel.times = 1;
	assert_int_equal(send_ten(&sent), WIRE_FULL);
	assert_int_equal(sent, 5);
}

/* An ICMP error about an earlier packet, and a signal: not errors of this send. */
static void test_not_ours(void **state)
{
	unsigned sent;

	for (int after = 0; after < 2; after++) {
		kernel.after = after;
		kernel.error = ECONNREFUSED;
		kernel.times = 1;
		assert_int_equal(send_ten(&sent), WIRE_SENT);
		assert_int_equal(sent, PACKETS);
		kernel.error = EINTR;
		kernel.times = 3;
		assert_int_equal(send_ten(&sent), WIRE_SENT);
		assert_int_equal(sent, PACKETS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_gso, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invalid_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_results, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_ours, setup, teardown),
	};

	net_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
