/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management with other hosts on an address whose last process has just ended, and may
 * not have closed its port: in a network namespace of the test's own.
 */
#include "../daemon/cm_raw.h"
#include "../daemon/harness.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#include "../udp/net.h"
#include "cmserver/cm_store.h"

#define SKIPPED 77

static const struct ctl_cm_address here = {
	.gid = { [10] = 0xff, 0xff, 10, 78, 0, 1 },
	.family = AF_INET,
};
static const struct ctl_cm_address elsewhere = {
	.gid = { [10] = 0xff, 0xff, 10, 78, 0, 2 },
	.family = AF_INET,
	.port = 7471,
};

static bool add_address(const struct ctl_cm_address *a)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct ifreq request = { .ifr_name = "lo:1" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	memcpy(&address.sin_addr, a->gid + 12, 4);
	memcpy(&request.ifr_addr, &address, sizeof(address));
	rc = ioctl(fd, SIOCSIFADDR, &request);
	memset(&address.sin_addr, 0xff, 4);
	memcpy(&request.ifr_netmask, &address, sizeof(address));
	rc |= ioctl(fd, SIOCSIFNETMASK, &request);
	close(fd);
	return !rc;
}

/* Soon the port is the daemon's. */
static bool is_taken(const struct ctl_cm_address *a)
{
	int64_t end = now_ms() + PATIENCE_MS;
	int fd;

	while ((fd = net_bind(a->gid, CTL_UDP_PORT)) >= 0) {
		close(fd);
		if (now_ms() > end)
			return false;
		usleep(20000);
	}
	return errno == EADDRINUSE;
}

static void test_listener(void **state)
{
	struct ctl_client *c = join();
	int left = leave_socket(c, here.gid), sock = cm_join();
	struct ctl_cm_address at;

	cm_listen_at(sock, cm_make_channel(sock), &here, &at);
	close(left);
	CHECK(is_taken(&here));
	close(sock);
	ctl_close(c);
}

/* It may end before the port is its own. */
static void test_listener_that_ends(void **state)
{
	struct ctl_client *c = join();
	int left = leave_socket(c, here.gid), sock, fd;
	unsigned before = count_fds(ctl_daemon_pid(c));
	struct ctl_cm_address at;

	sock = cm_join();
	cm_listen_at(sock, cm_make_channel(sock), &here, &at);
	close(sock);
	CHECK(comes_down_to(ctl_daemon_pid(c), before));
	close(left);
	usleep(300000); /* long enough for its last messages */
	fd = net_bind(here.gid, CTL_UDP_PORT);
	CHECK(fd >= 0);
	close(fd);
	CHECK(has_no_notice(c));
	ctl_close(c);
}

static void test_connection(void **state)
{
	struct ctl_client *c = join();
	int sock = cm_join(), left;
	uint32_t id = cm_make_id(sock, cm_make_channel(sock));

	left = leave_socket(c, here.gid); /* whose end counts for a second */
	CHECK(cm_connect_from(sock, id, &here, &elsewhere) == EAGAIN);
	close(left);
	CHECK(!cm_connect_from(sock, id, &here, &elsewhere));
	close(sock);
	ctl_close(c);
}

#define CHANNEL	   77u /* of the session that returns */
#define TYPE_BYTES 36  /* behind BTH, DETH, and the MAD's header as far as its attribute */

/* A connection from `here` with an address where the test listens. */
static struct cm_record_id a_connection(enum connection_state state)
{
	struct cm_record_id r = {
		.kind = CM_RECORD_ID,
		.number = 1000,
		.channel = CHANNEL,
		.space = CTL_CM_TCP,
		.qp_type = CTL_CM_QP_RC,
		.has_connection = 1,
		.had_connection = 1,
		.end = {
			.state = state,
			.local_id = 5000,
			.remote_id = 6000,
			.wait_ns = CONNECTION_EXPONENT_0_NS << CONNECTION_RESPONSE_TIMEOUT,
			.deadline_ns = INT64_MAX, /* the other end has said that it takes its time */
			.tries_left = CONNECTION_TRIES,
			.is_active = state == CONNECTION_ESTABLISHED,
		},
	};

	r.end.type = r.end.sent.type = state == CONNECTION_REP_SENT ? IBCM_REP : IBCM_DREQ;
	memcpy(r.local_gid, here.gid, sizeof(r.local_gid));
	net_address(false, 9, r.remote_gid);
	return r;
}

/* Its session returns, and has an answer. */
static int come_back_with(const struct cm_record_id *r)
{
	static uint32_t session = 0x2000000;
	struct ctl_cm_hello hello = cm_hello(++session);
	struct ctl_cm_ask channel = { .header = { .type = CTL_CM_RETURN_CHANNEL },
				      .channel = CHANNEL };
	struct ctl_cm_ask begin = { .header = { .type = CTL_CM_BEGIN, .seq = 1 } };
	int sock = raw_connect(), event_fd = cm_make_event_fd();
	struct cm_store store;
	uint32_t slot = 0;
	int fds[2];

	CHECK(!cm_store_open(&store, cm_make_store()));
	cm_store_put(&store, &slot, r, sizeof(*r));
	fds[0] = store.fd;
	fds[1] = event_fd;
	CHECK(!cm_ask_with(sock, &hello, sizeof(hello), fds, 2).body.welcome.status);
	CHECK(!cm_ask_with(sock, &channel, sizeof(channel), &event_fd, 1).body.cm_reply.status);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	cm_store_close(&store, 0);
	close(event_fd);
	return sock;
}

static int reject(int sock, uint32_t id)
{
	struct ctl_cm_request request = { .header = { .type = CTL_CM_REJECT }, .id = id };

	return cm_ask(sock, &request, sizeof(request)).status;
}

/* The type of the message that comes within the time, or 0. */
static int hear_type(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t bytes[512];

	if (poll(&p, 1, ms) <= 0)
		return 0;
	CHECK(recv(fd, bytes, sizeof(bytes), 0) > TYPE_BYTES + 1);
	return bytes[TYPE_BYTES] << 8 | bytes[TYPE_BYTES + 1];
}

/*
 * Another process closes the port after the connection was restored: then the connection sends its
 * messages, once.
 */
static void test_what_is_said_once_the_port_is_there(void **state)
{
	static const struct {
		enum connection_state state;
		enum ibcm_type type;
	} rows[] = {
		{ CONNECTION_REP_SENT, IBCM_REP },
		{ CONNECTION_ESTABLISHED, IBCM_RTU },
		{ CONNECTION_DREQ_SENT, IBCM_DREQ },
		{ CONNECTION_REQ_RCVD, IBCM_REJ }, /* rejected before */
		{ CONNECTION_REP_RCVD, IBCM_REJ },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct cm_record_id r = a_connection(rows[i].state);
		struct ctl_client *c = join();
		int left = leave_socket(c, here.gid), other, sock;

		other = net_bind(r.remote_gid, CTL_UDP_PORT);
		CHECK(other >= 0);
		sock = come_back_with(&r);
		if (rows[i].type == IBCM_REJ)
			CHECK(!reject(sock, r.number));
		CHECK(!hear_type(other, 50));
		close(left);
		CHECK(hear_type(other, PATIENCE_MS) == (int)rows[i].type);
		CHECK(!hear_type(other, 300));
		close(other);
		close(sock);
		ctl_close(c);
		CHECK(wait_for_end(daemon_pid(), PATIENCE_MS));
	}
}

/* with a MAD; other messages to an address are netlink requests, and shorter */
#define PACKET_BYTES_MIN 256

/* Stops it where it begins to send a packet. */
static bool stop_at_packet(pid_t pid)
{
	for (int64_t end = now_ms() + PATIENCE_MS; now_ms() < end;) {
		struct __ptrace_syscall_info info = { 0 };
		int status;

		if (ptrace(PTRACE_SYSCALL, pid, 0, 0) || waitpid(pid, &status, __WALL) != pid ||
		    !WIFSTOPPED(status))
			return false;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_sendto &&
		    info.entry.args[2] >= PACKET_BYTES_MIN && info.entry.args[4])
			return true;
	}
	return false;
}

static bool is_request(void *arg, uint32_t slot, const void *record)
{
	const struct cm_record_id *r = record;

	*(unsigned *)arg += r->kind == CM_RECORD_ID && r->has_connection &&
			    r->end.state == CONNECTION_REQ_SENT && r->end.local_id;
	return true;
}

/*
 * Otherwise the next daemon would send the REQ with another communication ID, and the other end
 * would have two requests.
 */
static void test_a_request_is_kept_before_it_leaves(void **state)
{
	struct ctl_client *c = join();
	struct ctl_cm_hello hello = cm_hello(0);
	struct ctl_cm_ask begin = { .header = { .type = CTL_CM_BEGIN, .seq = 1 } };
	struct ctl_cm_request request = { .header = { .type = CTL_CM_CONNECT },
					  .local = here,
					  .remote = elsewhere,
					  .end = { .qpn = 5 } };
	int sock = raw_connect(), fd = cm_make_store();
	pid_t daemon = daemon_pid();
	struct cm_store store;
	struct fdmsg m;
	unsigned requests = 0;
	int status;

	m = cm_ask_with(sock, &hello, sizeof(hello), &fd, 1);
	CHECK(!m.body.welcome.status);
	fdmsg_close_fds(&m);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	request.id = cm_make_id(sock, cm_make_channel(sock));
	if (ptrace(PTRACE_SEIZE, daemon, 0, PTRACE_O_TRACESYSGOOD)) {
		print_message("skipped: no process may be traced\n");
		skip();
	}
	CHECK(!ptrace(PTRACE_INTERRUPT, daemon, 0, 0) &&
	      waitpid(daemon, &status, __WALL) == daemon);
	CHECK(!fdmsg_send(sock, &request, sizeof(request), NULL, 0));
	CHECK(stop_at_packet(daemon));
	CHECK(!kill(daemon, SIGKILL));
	CHECK(!cm_store_open(&store, fd));
	cm_store_read(&store, is_request, &requests);
	CHECK(requests == 1);
	cm_store_close(&store, 0);
	close(sock);
	ctl_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_listener, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_listener_that_ends, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_connection, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_said_once_the_port_is_there,
						harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_a_request_is_kept_before_it_leaves,
						harness_setup, harness_teardown),
	};

	if (!net_init() || !add_address(&here)) {
		printf("skipped: no network namespaces\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
