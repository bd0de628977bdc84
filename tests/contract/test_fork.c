/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that fork: rule 32 of the contract. */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "events.h"

/* Runs `body` in a child of this very process and waits for it. */
static void in_child(void (*body)(struct pair *pair), struct pair *pair)
{
	int status;
	pid_t pid = fork();

	REQUIRE(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		runner_become_peer();
		alarm(10 * (unsigned int)patience());
		body(pair);
		_exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid, "waitpid");
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child %s %d",
		WIFSIGNALED(status) ? "was killed by signal" : "failed with status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static bool stop;

static void do_nothing(struct pair *pair)
{
}

/* A whole connection of the child's own, within it. */
static void open_anew(struct pair *ignored)
{
	static struct pair own;

	pair_init(&own, ONE_PROCESS);
	pair_connect(&own, WITH());
	expect_working(&own, 0);
	fill(&own.a, 0, 70000, 4);
	post_send(&own.a, 0, WRITE(&own.b, 0, .wr_id = 1, .length = 70000));
	expect(&own.a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(&own.b, 0, 70000, 4);
	for (int i = 0; i < WHICH; i++)
		expect_none(&own.a, i);
	REQUIRE(ibv_destroy_qp(own.a.side->qp[0]) == 0, "ibv_destroy_qp");
	REQUIRE(ibv_destroy_qp(own.b.side->qp[0]) == 0, "ibv_destroy_qp");
}

static void rule_32_fork_init(struct pair *pair)
{
	REQUIRE(ibv_fork_init() == 0, "ibv_fork_init: %s", strerror(errno));
	pair_connect(pair, WITH());
	REQUIRE(ibv_is_fork_initialized() != IBV_FORK_DISABLED, "fork is not safe");
	expect_working(pair, 0);
	in_child(do_nothing, pair);
	expect_working(pair, 0);
}

/* Connection and data of the parent survive children that live, die, and open the device. */
static void rule_32_child_opens_anew(struct pair *pair)
{
	pair_connect(pair, WITH());
	expect_working(pair, 0);
	for (int i = 0; i < 3; i++) {
		in_child(open_anew, pair);
		expect_working(pair, 0);
	}
	expect_no_async(&pair->a);
	expect_no_async(&pair->b);
}

static void rule_32_fork_before_open(struct pair *pair)
{
	in_child(open_anew, pair);
	pair_connect(pair, WITH());
	expect_working(pair, 0);
}

/* Copies are under way while the process forks. */
static void rule_32_traffic_during_forks(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.size = 4 << 20));
	for (uint32_t i = 1; i <= 10; i++) {
		fill(a, 0, 2 << 20, i);
		post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 2 << 20));
		in_child(do_nothing, pair);
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
		expect_bytes(b, 0, 2 << 20, i);
		fill(b, 0, 2 << 20, i + 100);
		post_send(a, 0, READ(b, 0, .wr_id = 2, .length = 2 << 20));
		in_child(do_nothing, pair);
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
		expect_bytes(a, 0, 2 << 20, i + 100);
	}
}

/* The child has a copy of its own: what the parent's memory receives, it does not see. */
static void rule_32_child_keeps_its_copy(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	int go[2], status;
	pid_t pid;
	char byte;

	pair_connect(pair, WITH());
	REQUIRE(pipe(go) == 0, "pipe");
	/* In use before the fork, by both ends. */
	fill(a, 0, 4096, 1);
	fill(b, 0, 4096, 2);
	post_send(b, 0, WRITE(a, 0, .wr_id = 1, .length = 4096));
	expect(b, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(a, 0, 4096, 2);
	pid = fork();
	REQUIRE(pid >= 0, "fork");
	if (pid == 0) {
		runner_become_peer();
		alarm(10);
		REQUIRE(read(go[0], &byte, 1) == 1, "read");
		for (uint64_t i = 0; i < 4096; i++)
			if ((uint8_t)a->side->buf[i] != pattern(2, i))
				_exit(3);
		memset(a->side->buf, 0x11, 4096);
		_exit(0);
	}
	fill(b, 0, 4096, 3);
	post_send(b, 0, WRITE(a, 0, .wr_id = 2, .length = 4096));
	expect(b, SENDS, 2, IBV_WC_SUCCESS);
	REQUIRE(write(go[1], "g", 1) == 1, "write");
	REQUIRE(waitpid(pid, &status, 0) == pid, "waitpid");
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) != 3, "the child saw the parent's data");
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: status 0x%x", status);
	expect_bytes(a, 0, 4096, 3); /* nor does the parent see the child's stores */
}

/* exec and exit of a child close nothing of the parent. */
static void exec_true(struct pair *pair)
{
	execl("/bin/true", "true", (char *)NULL);
	_exit(1);
}

static void rule_32_child_execs(struct pair *pair)
{
	pair_connect(pair, WITH());
	in_child(exec_true, pair);
	expect_working(pair, 0);
	in_child(exec_true, pair);
	expect_working(pair, 0);
}

/*
 * Calls that the child may make on inherited objects: queries, new objects that need no adapter,
 * destruction of its copies. None changes the parent.
 */
static void use_and_destroy(struct pair *pair)
{
	struct side *side = pair->a.side;
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_xrcd_init_attr xrcd_init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1
	};
	uint64_t value = 5, back = 0;
	struct ibv_device_attr device;
	struct ibv_xrcd *xrcd;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_dm *dm;

	REQUIRE(ibv_query_device(side->context, &device) == 0, "ibv_query_device");
	REQUIRE(ibv_query_gid(side->context, 1, 0, &gid) == 0, "ibv_query_gid");
	pd = ibv_alloc_pd(side->context);
	REQUIRE(pd && ibv_dealloc_pd(pd) == 0, "a PD");
	dm = ibv_alloc_dm(side->context, &dm_attr);
	REQUIRE(dm && ibv_memcpy_to_dm(dm, 0, &value, 8) == 0 &&
			ibv_memcpy_from_dm(&back, dm, 0, 8) == 0 && back == 5 &&
			ibv_free_dm(dm) == 0,
		"device memory: %s", strerror(errno));
	xrcd = ibv_open_xrcd(side->context, &xrcd_init);
	REQUIRE(xrcd && ibv_close_xrcd(xrcd) == 0, "an XRC domain");
	REQUIRE(!ibv_reg_mr(side->pd, side->buf, 4096, 0), "a region in the parent's PD");
	REQUIRE(ibv_destroy_qp(side->qp[0]) == 0 && ibv_destroy_srq(side->srq) == 0 &&
			ibv_dereg_mr(side->mr) == 0 && ibv_dealloc_pd(side->pd) == 0,
		"destroying the copies");
}

static void rule_32_child_uses_its_copies(struct pair *pair)
{
	struct ibv_context *imported;
	struct ibv_pd *pd;

	pair_connect(pair, WITH(.srq = true));
	in_child(use_and_destroy, pair);
	post_receive(&pair->b, -1, RECEIVE(.wr_id = 50, .length = 64));
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = 64));
	expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
	expect(&pair->b, RECEIVES, 50, IBV_WC_SUCCESS);
	/* the parent's PD is still one that can be imported */
	imported = ibv_import_device(dup(pair->a.side->context->cmd_fd));
	REQUIRE(imported, "ibv_import_device");
	pd = ibv_import_pd(imported, pair->a.side->pd->handle);
	REQUIRE(pd, "ibv_import_pd: %s", strerror(errno));
	ibv_unimport_pd(pd);
}

/* A child imports the parent's device by the cmd_fd that it inherits, and connects on it. */
static void import_inherited(struct pair *pair)
{
	struct ibv_context *context = ibv_import_device(dup(pair->a.side->context->cmd_fd));
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	REQUIRE(context, "ibv_import_device: %s", strerror(errno));
	pd = ibv_import_pd(context, pair->a.side->pd->handle);
	REQUIRE(pd, "ibv_import_pd: %s", strerror(errno));
	mr = ibv_reg_mr(pd, pair->a.side->buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(mr, "ibv_reg_mr: %s", strerror(errno));
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	ibv_unimport_pd(pd);
	REQUIRE(ibv_close_device(context) == 0, "ibv_close_device");
}

static void rule_32_child_imports(struct pair *pair)
{
	pair_connect(pair, WITH());
	in_child(import_inherited, pair);
	expect_working(pair, 0);
}

static bool is_udp_port_or_its_keeper(int fd)
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(name), int_len = sizeof(int);
	int type = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &int_len) || type != SOCK_DGRAM)
		return false;
	return !getsockname(fd, (struct sockaddr *)&name, &len);
}

/* The child has no UDP ports, so others can get them when the parent has ended. */
static void look_for_ports(struct pair *pair)
{
	for (int fd = 3; fd < 1024; fd++)
		REQUIRE(!is_udp_port_or_its_keeper(fd),
			"descriptor %d is a port of the parent's, or keeps it", fd);
}

static void rule_32_child_holds_no_port(struct pair *pair)
{
	bool any = false;

	pair_connect(pair, WITH());
	expect_working(pair, 0);
	for (int fd = 3; fd < 1024; fd++)
		any |= is_udp_port_or_its_keeper(fd);
	REQUIRE(any, "the test looks for the wrong thing");
	in_child(look_for_ports, pair);
	expect_working(pair, 0);
}

static void leave_with_events(struct pair *pair)
{
	struct side *side = pair->a.side;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	REQUIRE(ibv_modify_qp(side->qp[0], &attr, IBV_QP_STATE) == EIO, "ibv_modify_qp");
	ibv_ack_cq_events(side->cq[RECEIVES], 1); /* which the parent has fetched */
	REQUIRE(ibv_destroy_qp(side->qp[0]) == 0 && ibv_destroy_cq(side->cq[SENDS]) == 0 &&
			ibv_destroy_cq(side->cq[RECEIVES]) == 0,
		"destroying the copies");
	REQUIRE(!readable(side->channel->fd, 0) && !readable(side->context->async_fd, 0),
		"the parent's events");
	REQUIRE(ibv_destroy_comp_channel(side->channel) == 0, "ibv_destroy_comp_channel");
}

/* The events of the parent stay its own: those that wait, and those that it has not acknowledged.
 */
static void rule_32_child_leaves_the_events(struct pair *pair)
{
	struct side *side;
	struct ibv_cq *cq;
	void *context;

	pair_connect(pair, WITH(.channel = true));
	side = pair->a.side;
	arm(pair, RECEIVES, false);
	deliver(pair, 50, SOLICITED);
	REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == 0, "ibv_get_cq_event");
	arm(pair, RECEIVES, false);
	deliver(pair, 51, SOLICITED);
	REQUIRE(readable(side->channel->fd, WAIT_MS), "no event");
	in_child(leave_with_events, pair);
	expect_event(pair, RECEIVES);
	expect_no_event(pair);
	ibv_ack_cq_events(cq, 1);
	expect(&pair->a, RECEIVES, 50, IBV_WC_SUCCESS);
	expect(&pair->a, RECEIVES, 51, IBV_WC_SUCCESS);
	arm(pair, RECEIVES, false);
	deliver(pair, 52, SOLICITED);
	expect_event(pair, RECEIVES);
	expect(&pair->a, RECEIVES, 52, IBV_WC_SUCCESS);
}

static void leave_with_async_event(struct pair *pair)
{
	struct side *side = pair->b.side;

	REQUIRE(ibv_destroy_qp(side->qp[0]) == 0, "ibv_destroy_qp");
	REQUIRE(!readable(side->context->async_fd, 0), "the parent's event");
}

static void rule_32_child_leaves_the_async_events(struct pair *pair)
{
	pair_connect(pair, WITH());
	post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = 1, .length = 64, .rkey = 1));
	expect(&pair->a, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
	REQUIRE(readable(pair->b.side->context->async_fd, WAIT_MS), "no async event");
	in_child(leave_with_async_event, pair);
	expect_async(&pair->b, 0, IBV_EVENT_QP_ACCESS_ERR);
}

static void refuse_new_objects(struct pair *pair)
{
	struct side *side = pair->a.side;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = side->cq[SENDS],
					 .recv_cq = side->cq[RECEIVES] };
	struct ibv_ah_attr ah = { .is_global = 1,
				  .port_num = 1,
				  .grh = { .dgid = pair->b.gid, .hop_limit = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	REQUIRE(!ibv_create_qp(side->pd, &init) && errno == EINVAL, "a QP: errno %d", errno);
	REQUIRE(!ibv_create_ah(side->pd, &ah) && errno == EINVAL, "an AH: errno %d", errno);
	REQUIRE(ibv_modify_qp(side->qp[0], &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == EIO,
		"ibv_modify_qp");
	REQUIRE(ibv_destroy_qp(side->qp[0]) == 0, "a QP with a multicast group");
	ibv_dealloc_pd(ibv_alloc_pd(side->context));
}

/* What needs the parent's adapter is refused, and what is only there to be put away is. */
static void rule_32_child_cannot_connect(struct pair *pair)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 0x77 } };
	struct ibv_context *imported;
	struct ibv_pd *pd;
	uint32_t next;

	pair_make(pair, WITH(.type = IBV_QPT_UD));
	end_ready(&pair->a, &pair->b, 0);
	REQUIRE(ibv_attach_mcast(pair->a.side->qp[0], &group, 0) == 0, "ibv_attach_mcast");
	pd = ibv_alloc_pd(pair->a.side->context);
	REQUIRE(pd, "ibv_alloc_pd");
	next = pd->handle + 1; /* the child's */
	REQUIRE(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
	in_child(refuse_new_objects, pair);
	REQUIRE(ibv_destroy_qp(pair->a.side->qp[0]) == EBUSY, "the parent's group");
	REQUIRE(ibv_detach_mcast(pair->a.side->qp[0], &group, 0) == 0, "ibv_detach_mcast");
	imported = ibv_import_device(dup(pair->a.side->context->cmd_fd));
	REQUIRE(imported && !ibv_import_pd(imported, next), "the child's PD is the parent's");
}

/* Another thread polls, so the fork may find locks of a CQ and a channel taken. */
static void *poll_all_the_time(void *arg)
{
	struct side *side = arg;
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .channel = side->channel };
	struct ibv_wc wc;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct ibv_cq_ex *other = ibv_create_cq_ex(side->context, &attr);

		for (int i = 0; i < 100; i++) {
			ibv_req_notify_cq(side->cq[SENDS], 0);
			ibv_poll_cq(side->cq[SENDS], 1, &wc);
			ibv_post_srq_recv(side->srq, NULL, NULL);
		}
		ibv_destroy_cq(ibv_cq_ex_to_cq(other));
	}
	return NULL;
}

static void put_away(struct pair *pair)
{
	struct side *side = pair->a.side;
	struct ibv_srq_attr attr;
	struct ibv_wc wc;

	REQUIRE(ibv_query_srq(side->srq, &attr) == 0, "ibv_query_srq");
	ibv_req_notify_cq(side->cq[SENDS], 0);
	ibv_poll_cq(side->cq[SENDS], 1, &wc);
	REQUIRE(ibv_destroy_srq(side->srq) == 0 && ibv_destroy_cq(side->cq[SENDS]) == 0 &&
			ibv_destroy_comp_channel(side->channel) == EBUSY,
		"destroying the copies");
}

static void rule_32_fork_beside_a_thread(struct pair *pair)
{
	struct side *side = side_open(WITH(.channel = true, .srq = true));
	pthread_t thread;

	pair->a.side = side;
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	REQUIRE(pthread_create(&thread, NULL, poll_all_the_time, side) == 0, "pthread_create");
	for (int i = 0; i < 200; i++)
		in_child(put_away, pair);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static const struct test tests[] = {
	PAIR(rule_32_fork_init),
	PAIR(rule_32_child_opens_anew),
	PAIR(rule_32_fork_before_open),
	PAIR_WITHIN(60, rule_32_traffic_during_forks),
	PAIR(rule_32_child_keeps_its_copy),
	PAIR(rule_32_child_execs),
	PAIR(rule_32_child_uses_its_copies),
	PAIR(rule_32_child_imports),
	PAIR(rule_32_child_holds_no_port),
	PAIR(rule_32_child_leaves_the_events),
	HERE(rule_32_child_leaves_the_async_events),
	PAIR(rule_32_child_cannot_connect),
	HERE(rule_32_fork_beside_a_thread),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
