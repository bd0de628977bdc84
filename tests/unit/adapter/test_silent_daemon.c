/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stopped verbatimd (SIGSTOP) delays only the request that needs its answer, for a bounded time:
 * not the post, nor another QP. Waiting requests continue when it does.
 *
 * The same for a new verbatimd after the last one's death.
 *
 * The process sends to itself, and to a child of its own: through shared memory, or with
 * VERBATIM_PATH=wire over UDP. In a network namespace of its own (by_wire.sh).
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/protocol.h"

#define QKEY	    0x1234
#define ASKED_MS    1000 /* wait for verbatimd's answer about a process or a group */
#define PORT_MS	    2000 /* the same about a port */
#define AT_ONCE_MS  900	 /* less than any of these waits; no more is meant, on a busy machine */
#define SLACK_MS    5000 /* for a wait that ends to be seen to end */
#define PATIENCE_MS 20000
#define STRANGER    (777u << 14) /* a QP of a process that does not exist */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq, *other_cq;
static struct ibv_mr *mr;
static char memory[4096];
static pid_t daemon_pid;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool over_wire(void)
{
	const char *path = getenv("VERBATIM_PATH");

	return path && !strcmp(path, "wire");
}

/* The peer of this process's sockets. */
static pid_t find_daemon(void)
{
	for (int fd = 3; fd < 256; fd++) {
		struct ucred peer = { 0 };
		socklen_t len = sizeof(peer);
		char path[64], comm[16] = "";
		FILE *file;

		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || peer.pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)peer.pid);
		file = fopen(path, "re");
		if (file && fgets(comm, sizeof(comm), file) && !strcmp(comm, "verbatimd\n")) {
			fclose(file);
			return peer.pid;
		}
		if (file)
			fclose(file);
	}
	return 0;
}

static void stop_daemon(void)
{
	char path[64], stat[256], *state = NULL;

	assert_int_equal(kill(daemon_pid, SIGSTOP), 0);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)daemon_pid);
	while (!state || state[2] != 'T') {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		assert_non_null(fgets(stat, sizeof(stat), file));
		fclose(file);
		state = strrchr(stat, ')');
	}
}

static void continue_daemon(void)
{
	assert_int_equal(kill(daemon_pid, SIGCONT), 0);
}

static int end(void **state)
{
	if (daemon_pid)
		kill(daemon_pid, SIGCONT);
	return 0;
}

/* The next verbatimd that takes this process is stopped before it is asked anything. */
static _Atomic bool stops_next;
static _Atomic pid_t stopped;

static void on_message(const struct msghdr *m, ssize_t bytes)
{
	const struct ctl_welcome *welcome = m->msg_iovlen ? m->msg_iov[0].iov_base : NULL;

	if (!stops_next || bytes != sizeof(*welcome) ||
	    welcome->greeting.header.type != CTL_WELCOME || welcome->greeting.magic != CTL_MAGIC ||
	    welcome->status)
		return;
	stops_next = false;
	kill(welcome->pid, SIGSTOP);
	stopped = welcome->pid;
}

/* In place of the C library's, which the libraries would call. */
__attribute__((visibility("default"))) ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t bytes = syscall(SYS_recvmsg, fd, m, flags);

	if (bytes > 0)
		on_message(m, bytes);
	return bytes;
}

static void replace_daemon_by_a_silent_one(void)
{
	int64_t until = now_ms() + PATIENCE_MS;

	stops_next = true;
	assert_int_equal(kill(daemon_pid, SIGKILL), 0);
	while (!stopped) {
		assert_true(now_ms() < until);
		usleep(1000);
	}
	daemon_pid = stopped;
	stopped = 0;
	stop_daemon();
}

static struct ibv_qp *make_qp(enum ibv_qp_type type, struct ibv_cq *on)
{
	struct ibv_qp_init_attr init = {
		.send_cq = on,
		.recv_cq = on,
		.qp_type = type,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
		0);
	return qp;
}

static void to_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static struct ibv_qp *make_ready(struct ibv_cq *on)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp = make_qp(IBV_QPT_UD, on);

	to_rtr(qp);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

static void gid_of(const char text[4], union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(&gid->raw[12], text, 4);
}

static int index_of(const union ibv_gid *gid)
{
	union ibv_gid there;

	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid(context, 1, i, &there) && !memcmp(&there, gid, sizeof(there)))
			return i;
	return -1;
}

static struct ibv_ah *make_ah(const char to[4], int sgid_index)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };
	struct ibv_ah *ah;

	gid_of(to, &attr.grh.dgid);
	attr.grh.sgid_index = (uint8_t)sgid_index;
	ah = ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	return ah;
}

static int loopback(void)
{
	union ibv_gid gid;

	gid_of("\x7f\0\0\1", &gid);
	return index_of(&gid);
}

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory + 1024, .length = 1024, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static void post_send(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t to)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 16, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = to, .remote_qkey = QKEY },
	}, *bad;
	int64_t before = now_ms();

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_in_range(now_ms() - before, 0, AT_ONCE_MS);
}

/* Takes completions until all of `ids`, a bit each, have come. */
static void await(struct ibv_cq *from, unsigned ids, int ms)
{
	int64_t until = now_ms() + ms;
	struct ibv_wc wc;

	while (ids) {
		if (ibv_poll_cq(from, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			ids &= ~(1u << wc.wr_id);
		}
		assert_true(now_ms() <= until);
	}
}

static bool is_quiet(struct ibv_cq *from)
{
	struct ibv_wc wc;

	return ibv_poll_cq(from, 1, &wc) == 0;
}

/* Two other QPs exchange datagrams undisturbed. */
static struct ibv_qp *others[2];
static struct ibv_ah *other_ah;

static void exchange_beside(void)
{
	for (int i = 0; i < 20; i++) {
		post_receive(others[1]);
		post_send(others[0], other_ah, others[1]->qp_num);
		await(other_cq, 1 << 1 | 1 << 2, AT_ONCE_MS);
	}
}

static int begin(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	assert_non_null(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	other_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	assert_true(pd && cq && other_cq && mr);
	daemon_pid = find_daemon();
	assert_true(daemon_pid > 0);
	return 0;
}

static unsigned take(struct ibv_cq *from)
{
	unsigned ids = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(from, 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		ids |= 1u << wc.wr_id;
	}
	return ids;
}

/* Datagrams are lost until the port is open, and nothing tells when that is. */
static void send_until_received(struct ibv_qp *qp, struct ibv_ah *ah)
{
	int64_t until = now_ms() + PATIENCE_MS;

	for (unsigned received = 0; !received;) {
		post_send(qp, ah, qp->qp_num);
		for (unsigned ids = 0; !(ids & 1 << 1); received |= ids & 1 << 2) {
			usleep(1000);
			ids |= take(cq);
			assert_true(now_ms() <= until);
		}
	}
}

/* The first test, while no port is open: the QP receives once verbatimd continues. */
static void a_ud_qp_gets_its_ports_later(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp = make_qp(IBV_QPT_UD, cq);
	int64_t before = now_ms();
	struct ibv_ah *ah;

	stop_daemon();
	to_rtr(qp);
	assert_in_range(now_ms() - before, 0, PORT_MS + SLACK_MS);
	continue_daemon();
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	ah = make_ah("\x7f\0\0\1", loopback());
	post_receive(qp);
	send_until_received(qp, ah);
	ibv_destroy_ah(ah);
	ibv_destroy_qp(qp);
}

static void make_others(void)
{
	others[0] = make_ready(other_cq);
	others[1] = make_ready(other_cq);
	other_ah = make_ah("\x7f\0\0\1", loopback());
	exchange_beside();
}

static void destroy_others(void)
{
	ibv_destroy_ah(other_ah);
	ibv_destroy_qp(others[0]);
	ibv_destroy_qp(others[1]);
}

static void a_datagram_to_a_group_waits_and_its_post_does_not(void **state)
{
	struct ibv_qp *from = make_ready(cq), *to = make_ready(cq);
	union ibv_gid group;
	struct ibv_ah *ah;
	int64_t before;

	make_others();
	gid_of("\xef\x4e\1\1", &group);
	assert_int_equal(ibv_attach_mcast(to, &group, 0), 0);
	post_receive(to);
	stop_daemon();
	before = now_ms();
	ah = make_ah("\xef\x4e\1\1", loopback());
	assert_in_range(now_ms() - before, 0, ASKED_MS + SLACK_MS);
	post_send(from, ah, 0xffffff);
	exchange_beside();
	if (!over_wire())
		assert_true(is_quiet(cq));
	continue_daemon();
	await(cq, 1 << 1 | 1 << 2, PATIENCE_MS);
	ibv_destroy_ah(ah);

	/* No answer: it ends as one that the network lost. */
	stop_daemon();
	ah = make_ah("\xef\x4e\1\2", loopback());
	post_send(from, ah, 0xffffff);
	await(cq, 1 << 1, ASKED_MS + SLACK_MS);
	continue_daemon();
	ibv_destroy_ah(ah);
	assert_int_equal(ibv_detach_mcast(to, &group, 0), 0);
	ibv_destroy_qp(from);
	ibv_destroy_qp(to);
	destroy_others();
}

/* Of an address that the interface did not have when the QP moved to RTR. */
static void a_first_datagram_from_an_address_waits_and_its_post_does_not(void **state)
{
	struct ibv_qp *from = make_ready(cq), *to = make_ready(cq);
	int64_t until = now_ms() + PATIENCE_MS;
	union ibv_gid gid;
	struct ibv_ah *ah;

	if (!over_wire())
		skip();
	make_others();
	gid_of("\x0a\x4e\x09\1", &gid);
	assert_int_equal(system("ip address add 10.78.9.1/32 dev lo"), 0);
	while (index_of(&gid) < 0)
		assert_true(now_ms() < until);
	ah = make_ah("\x7f\0\0\1", index_of(&gid));
	post_receive(to);
	stop_daemon();
	post_send(from, ah, to->qp_num);
	exchange_beside();
	assert_true(is_quiet(cq));
	continue_daemon();
	await(cq, 1 << 1 | 1 << 2, PATIENCE_MS);
	ibv_destroy_ah(ah);

	/* No answer: it ends as one that the network lost; and the next one finds the port open. */
	gid_of("\x0a\x4e\x09\2", &gid);
	assert_int_equal(system("ip address add 10.78.9.2/32 dev lo"), 0);
	while (index_of(&gid) < 0)
		assert_true(now_ms() < until);
	ah = make_ah("\x7f\0\0\1", index_of(&gid));
	stop_daemon();
	post_send(from, ah, to->qp_num);
	await(cq, 1 << 1, ASKED_MS + SLACK_MS);
	continue_daemon();
	post_receive(to);
	post_send(from, ah, to->qp_num);
	await(cq, 1 << 1 | 1 << 2, PATIENCE_MS);
	ibv_destroy_ah(ah);
	ibv_destroy_qp(from);
	ibv_destroy_qp(to);
	destroy_others();
}

/* RTR does not need the other end: the wait for an unknown process is bounded. */
static void rtr_to_a_process_not_met_is_bounded(void **state)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = STRANGER,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 },
	};
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, cq);
	int64_t before;

	make_others();
	gid_of("\x7f\0\0\1", &attr.ah_attr.grh.dgid);
	attr.ah_attr.grh.sgid_index = (uint8_t)loopback();
	stop_daemon();
	before = now_ms();
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_in_range(now_ms() - before, 0, ASKED_MS + SLACK_MS);
	exchange_beside();
	continue_daemon();
	ibv_destroy_qp(qp);
	destroy_others();
}

/* For a child that sends messages back to a QP. */
struct told {
	uint32_t qpn;
};

static int to_echo[2], from_echo[2];
static pid_t echo_pid;

static void echo(void)
{
	struct told peer = { 0 };
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	if (read(to_echo[0], &peer, sizeof(peer)) != sizeof(peer))
		_exit(0);
	begin(NULL);
	qp = make_ready(cq);
	ah = make_ah("\x7f\0\0\1", loopback());
	for (int i = 0; i < 8; i++)
		post_receive(qp);
	assert_int_equal(write(from_echo[1], &qp->qp_num, sizeof(qp->qp_num)), sizeof(qp->qp_num));
	for (;;) {
		struct pollfd over = { .fd = to_echo[0], .events = POLLIN };

		if (poll(&over, 1, 0) > 0)
			_exit(0);
		if (ibv_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != 2)
			continue;
		post_receive(qp);
		post_send(qp, ah, peer.qpn);
	}
}

static void start_echo(void)
{
	assert_int_equal(pipe(to_echo), 0);
	assert_int_equal(pipe(from_echo), 0);
	echo_pid = fork();
	if (echo_pid == 0)
		echo();
}

/* This thread waits in poll(2), so the progress thread takes the packets. */
static void await_event(struct ibv_comp_channel *channel, struct ibv_cq *on, int ms)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *of;
	void *arg;

	assert_int_equal(poll(&p, 1, ms), 1);
	assert_int_equal(ibv_get_cq_event(channel, &of, &arg), 0);
	ibv_ack_cq_events(on, 1);
}

static void talk(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t to,
		 struct ibv_comp_channel *channel, struct ibv_cq *on, int ms)
{
	post_receive(qp);
	assert_int_equal(ibv_req_notify_cq(on, 0), 0);
	post_send(qp, ah, to);
	for (unsigned ids = 1 << 1 | 1 << 2; ids;) {
		struct ibv_wc wc;
		int64_t before = now_ms();

		while (ibv_poll_cq(on, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			ids &= ~(1u << wc.wr_id);
		}
		if (!ids)
			break;
		await_event(channel, on, ms);
		assert_in_range(now_ms() - before, 0, ms);
		assert_int_equal(ibv_req_notify_cq(on, 0), 0);
	}
}

static void a_new_daemon_that_is_silent_holds_up_nothing(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *on = ibv_create_cq(context, 64, NULL, channel, 0);
	struct ibv_qp *qp = make_ready(on), *other = make_ready(cq);
	struct ibv_ah *ah = make_ah("\x7f\0\0\1", loopback()), *to_group;
	struct told told = { .qpn = qp->qp_num };
	union ibv_gid groups[4];
	uint32_t echo_qpn;

	for (int i = 0; i < 4; i++) {
		gid_of("\xef\x4e\2\1", &groups[i]);
		groups[i].raw[15] = (uint8_t)(i + 1);
		assert_int_equal(ibv_attach_mcast(qp, &groups[i], 0), 0);
	}
	assert_int_equal(write(to_echo[1], &told, sizeof(told)), sizeof(told));
	assert_int_equal(read(from_echo[0], &echo_qpn, sizeof(echo_qpn)), sizeof(echo_qpn));
	talk(qp, ah, echo_qpn, channel, on, PATIENCE_MS);
	make_others();
	replace_daemon_by_a_silent_one();
	for (int i = 0; i < 10; i++)
		talk(qp, ah, echo_qpn, channel, on, AT_ONCE_MS);
	exchange_beside();
	continue_daemon();

	/* It has been told of the groups when it answers. */
	to_group = make_ah("\xef\x4e\2\1", loopback());
	post_receive(qp);
	post_send(other, to_group, 0xffffff);
	await(cq, 1 << 1, PATIENCE_MS);
	await(on, 1 << 2, PATIENCE_MS);
	for (int i = 0; i < 4; i++)
		assert_int_equal(ibv_detach_mcast(qp, &groups[i], 0), 0);
	destroy_others();
	assert_int_equal(write(to_echo[1], &told, 1), 1);
	assert_int_equal(waitpid(echo_pid, NULL, 0), echo_pid);
	ibv_destroy_ah(to_group);
	ibv_destroy_ah(ah);
	ibv_destroy_qp(qp);
	ibv_destroy_qp(other);
	ibv_destroy_cq(on);
	ibv_destroy_comp_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_ud_qp_gets_its_ports_later, end),
		cmocka_unit_test_teardown(a_datagram_to_a_group_waits_and_its_post_does_not, end),
		cmocka_unit_test_teardown(
			a_first_datagram_from_an_address_waits_and_its_post_does_not, end),
		cmocka_unit_test_teardown(rtr_to_a_process_not_met_is_bounded, end),
		cmocka_unit_test_teardown(a_new_daemon_that_is_silent_holds_up_nothing, end),
	};

	start_echo();
	return cmocka_run_group_tests(tests, begin, NULL);
}
