/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are imported by their handles, within a process and by another: rule 9. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static struct ibv_context *import_context(struct ibv_context *context)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));

	if (!imported && errno == EOPNOTSUPP)
		skip_because("ibv_import_device: not supported");
	REQUIRE(imported, "ibv_import_device: %s", strerror(errno));
	return imported;
}

static void rule_09_import_device(struct pair *pair)
{
	struct ibv_context *context = side_open_device(), *imported = import_context(context);
	struct ibv_port_attr port;
	int null = open("/dev/null", O_RDWR);

	REQUIRE(imported != context && imported->device == context->device, "another device");
	REQUIRE(ibv_query_port(imported, 1, &port) == 0, "ibv_query_port");
	REQUIRE(imported->async_fd != context->async_fd, "one async_fd for both");
	REQUIRE(!ibv_import_device(null), "/dev/null is a device");
	REQUIRE(ibv_close_device(imported) == 0, "ibv_close_device");
	REQUIRE(ibv_query_port(context, 1, &port) == 0, "the context it came from");
}

/* QPs of the imported PD use regions of the PD it stands for, and the other way round. */
static void rule_09_import_pd_and_mr(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_context *context;
	struct ibv_pd *pd, *own;
	struct ibv_mr *mr, *other;
	struct ibv_cq *cq;

	pair_make(pair, WITH());
	context = import_context(a->side->context);
	pd = ibv_import_pd(context, a->side->pd->handle);
	REQUIRE(pd, "ibv_import_pd: %s", strerror(errno));
	REQUIRE(pd->handle == a->side->pd->handle && pd->context == context, "its fields");
	REQUIRE(!ibv_import_pd(context, a->side->pd->handle + 1000), "a PD that is not there");
	mr = ibv_import_mr(pd, a->side->mr->handle);
	REQUIRE(mr, "ibv_import_mr: %s", strerror(errno));
	REQUIRE(mr->lkey == a->lkey && mr->rkey == a->rkey && mr->addr == NULL && mr->pd == pd,
		"its fields");
	REQUIRE(!ibv_import_mr(pd, a->side->mr->handle ^ 0x8000), "a region that is not there");
	own = ibv_alloc_pd(context);
	REQUIRE(own && !ibv_import_mr(own, a->side->mr->handle), "a region of another PD");

	/* a QP on the imported PD sends from the region of the first one */
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	REQUIRE(cq, "ibv_create_cq");
	REQUIRE(ibv_destroy_qp(a->side->qp[0]) == 0, "ibv_destroy_qp");
	{
		struct side there = *a->side;

		there.context = context;
		there.pd = pd;
		there.cq[SENDS] = there.cq[RECEIVES] = cq;
		a->side->qp[0] = side_create_qp(&there, WITH());
	}
	a->side->cq[SENDS] = a->side->cq[RECEIVES] = cq;
	a->qpn[0] = a->side->qp[0]->qp_num;
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	fill(a, 0, 4096, 4);
	post_send(a, 0,
		  WRITE(b, 0, .wr_id = 1, .num_sge = 1, .sge = { { a->addr, 4096, mr->lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, 0, 4096, 4);
	post_send(b, 0, WRITE(a, 8192, .wr_id = 2, .length = 4096, .rkey = mr->rkey));
	expect(b, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(a, 8192, 4096, 4);
	/* ibv_unimport_mr does not change the region */
	ibv_unimport_mr(mr);
	post_send(a, 0, WRITE(b, 4096, .wr_id = 3, .length = 4096));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	/* if an import destroys the region, its key is dead */
	mr = ibv_import_mr(pd, a->side->mr->handle);
	REQUIRE(mr && ibv_dereg_mr(mr) == 0, "ibv_dereg_mr of an import");
	post_send(a, 0, WRITE(b, 0, .wr_id = 4, .length = 64));
	expect(a, SENDS, 4, IBV_WC_LOC_PROT_ERR);
	ibv_unimport_mr(a->side->mr);
	other = ibv_reg_mr(pd, a->side->buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(other, "ibv_reg_mr in an imported PD");
	REQUIRE(ibv_dealloc_pd(a->side->pd) == EBUSY, "the PD is in use by way of its import");
	REQUIRE(ibv_dereg_mr(other) == 0, "ibv_dereg_mr");
	/* unimported before its last object, the PD ends with that */
	ibv_unimport_pd(pd);
	REQUIRE(ibv_dealloc_pd(a->side->pd) == EBUSY, "a QP is left");
	REQUIRE(ibv_destroy_qp(a->side->qp[0]) == 0, "ibv_destroy_qp");
	REQUIRE(ibv_dealloc_pd(a->side->pd) == 0, "ibv_dealloc_pd");
	REQUIRE(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(own) == 0 &&
			ibv_close_device(context) == 0,
		"the imported context's own objects");
}

static void rule_09_import_dm(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_context *context = import_context(side->context);
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct ibv_dm *dm = ibv_alloc_dm(side->context, &attr), *imported;
	uint64_t value = 77, back = 0;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	if (!dm)
		skip_because("no device memory");
	imported = ibv_import_dm(context, dm->handle);
	REQUIRE(imported, "ibv_import_dm: %s", strerror(errno));
	REQUIRE(ibv_memcpy_to_dm(imported, 8, &value, 8) == 0, "ibv_memcpy_to_dm");
	REQUIRE(ibv_memcpy_from_dm(&back, dm, 8, 8) == 0 && back == 77, "it is other memory");
	REQUIRE(!ibv_import_dm(context, dm->handle + 1000), "device memory that is not there");
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_dm_mr(pd, imported, 0, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	REQUIRE(mr && ibv_dereg_mr(mr) == 0, "a region of it: %s", strerror(errno));
	ibv_unimport_dm(imported);
	ibv_unimport_dm(dm); /* was not imported, and stays */
	REQUIRE(ibv_free_dm(dm) == 0, "ibv_free_dm");
	REQUIRE(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "closing");
}

static void send_fd(int to, int fd, uint32_t handle)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &handle, sizeof(handle) };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	REQUIRE(sendmsg(to, &message, 0) == sizeof(handle), "sendmsg: %s", strerror(errno));
}

static int receive_fd(int from, uint32_t *handle)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { handle, sizeof(*handle) };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd;

	REQUIRE(recvmsg(from, &message, 0) == sizeof(*handle) && CMSG_FIRSTHDR(&message),
		"recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

/* Another process imports a cmd_fd that it was sent. Status 0, or the step that failed. */
static int import_there(int socket)
{
	static char memory[4096];
	uint32_t handle;
	int fd = receive_fd(socket, &handle);
	struct ibv_context *context = ibv_import_device(fd);
	struct ibv_pd *pd, *again, *own;
	struct ibv_mr *mr;

	if (!context)
		return 1;
	pd = ibv_import_pd(context, handle);
	if (!pd || pd->handle != handle)
		return 2;
	again = ibv_import_pd(context, handle);
	if (!again || ibv_import_pd(context, handle + 100))
		return 3;
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	if (!mr || ibv_import_mr(pd, 65535))
		return 4;
	if (ibv_dereg_mr(mr))
		return 5;
	/* PDs of its own do not come between */
	own = ibv_alloc_pd(context);
	if (!own || own == pd || ibv_dealloc_pd(own))
		return 7;
	ibv_unimport_pd(again);
	ibv_unimport_pd(pd);
	return ibv_close_device(context) ? 6 : 0;
}

/* Forks a process that runs `work`; *socket is a connection to it. */
static pid_t start_importer(int (*work)(int socket), int *socket)
{
	int sockets[2];
	pid_t child;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
	child = fork();
	REQUIRE(child >= 0, "fork");
	if (child == 0) {
		runner_become_peer();
		close(sockets[0]);
		_exit(work(sockets[1]));
	}
	close(sockets[1]);
	*socket = sockets[0];
	return child;
}

static void expect_imported(pid_t child)
{
	int status;

	REQUIRE(waitpid(child, &status, 0) == child, "waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		skip_because("no import across processes");
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
}

static void rule_09_import_in_another_process(struct pair *pair)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	pid_t child;
	int socket;

	child = start_importer(import_there, &socket);
	context = side_open_device();
	pd = ibv_alloc_pd(context);
	REQUIRE(pd, "ibv_alloc_pd");
	send_fd(socket, context->cmd_fd, pd->handle);
	expect_imported(child);
	REQUIRE(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
}

/*
 * A region of another process: the importer sends from it, receives into it, reads and writes it,
 * and lets peers do so, without a mapping of its memory. The parent sends the handle of the PD
 * (send_fd), then this struct.
 */
struct region {
	uint32_t handle;
	uint64_t addr;
	uint32_t bytes;
};

/* The importer's connection with itself. */
struct loop {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *own;
	char *memory;
};

static int connect_loop(struct loop *loop, struct ibv_context *context, struct ibv_pd *pd)
{
	static char memory[65536];
	struct side side = { .context = context, .pd = pd };
	struct end end = { .side = &side };
	struct op_move op = { 0 };

	loop->memory = memory;
	loop->cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	loop->own = ibv_reg_mr(pd, memory, sizeof(memory), ACCESS_ALL);
	if (!loop->cq || !loop->own)
		return -1;
	side.cq[SENDS] = side.cq[RECEIVES] = loop->cq;
	side.options = *WITH();
	side.qp[0] = side_create_qp(&side, WITH());
	if (!side.qp[0] || ibv_query_gid(context, 1, 0, &op.gid))
		return -1;
	loop->qp = side.qp[0];
	op.qpn = loop->qp->qp_num;
	for (op.to = IBV_QPS_INIT; op.to <= IBV_QPS_RTS; op.to++) {
		RUN(&end, op_move, &op);
		if (op.result)
			return -1;
	}
	return 0;
}

/* Posts one request and returns its status, or -1. */
static int carry_out(struct loop *loop, enum ibv_wr_opcode opcode, struct ibv_sge sge,
		     uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = remote, .rkey = rkey } },
			   *bad;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	uint64_t end_ms = now_ms() + WAIT_MS;
	int n = 0;

	if (ibv_post_send(loop->qp, &wr, &bad))
		return -1;
	while (n == 0 && now_ms() < end_ms)
		n = ibv_poll_cq(loop->cq, 1, &wc);
	return n == 1 ? (int)wc.status : -1;
}

static bool is_pattern(const char *bytes, uint32_t count, uint32_t seed)
{
	for (uint32_t i = 0; i < count; i++)
		if ((uint8_t)bytes[i] != pattern(seed, i))
			return false;
	return true;
}

#define HALF 32768

static int import_mr_there(int socket)
{
	uint32_t pd_handle;
	struct ibv_context *context = ibv_import_device(receive_fd(socket, &pd_handle));
	struct region region;
	struct loop loop;
	struct ibv_pd *pd, *own;
	struct ibv_mr *mr;
	char word = 0;

	if (!context)
		return 1;
	if (recv(socket, &region, sizeof(region), MSG_WAITALL) != sizeof(region))
		return 2;
	pd = ibv_import_pd(context, pd_handle);
	own = ibv_alloc_pd(context);
	if (!pd || !own || ibv_import_mr(own, region.handle) ||
	    ibv_import_mr(pd, region.handle ^ 0x8000))
		return 3;
	mr = ibv_import_mr(pd, region.handle);
	if (!mr)
		return errno == EOPNOTSUPP ? 1 : 4;
	if (mr->pd != pd || mr->length != region.bytes || mr->handle == 0 ||
	    connect_loop(&loop, context, pd))
		return 5;
	/* its first half to a place of ours: as the source of a WRITE, by its lkey */
	if (carry_out(&loop, IBV_WR_RDMA_WRITE, (struct ibv_sge){ region.addr, HALF, mr->lkey },
		      (uintptr_t)loop.memory, loop.own->rkey) != IBV_WC_SUCCESS ||
	    !is_pattern(loop.memory, HALF, 3))
		return 6;
	/* and back into its second half: as the target, by its rkey */
	for (uint32_t i = 0; i < HALF; i++)
		loop.memory[i] = (char)pattern(4, i);
	if (carry_out(&loop, IBV_WR_RDMA_WRITE,
		      (struct ibv_sge){ (uintptr_t)loop.memory, HALF, loop.own->lkey },
		      region.addr + HALF, mr->rkey) != IBV_WC_SUCCESS)
		return 7;
	if (carry_out(&loop, IBV_WR_RDMA_READ,
		      (struct ibv_sge){ (uintptr_t)loop.memory + HALF, HALF, loop.own->lkey },
		      region.addr + HALF, mr->rkey) != IBV_WC_SUCCESS ||
	    !is_pattern(loop.memory + HALF, HALF, 4))
		return 8;
	if (carry_out(&loop, IBV_WR_RDMA_WRITE,
		      (struct ibv_sge){ region.addr + 1, region.bytes, mr->lkey },
		      (uintptr_t)loop.memory, loop.own->rkey) != IBV_WC_LOC_PROT_ERR)
		return 9;
	/* the owner deregisters it now: then it is dead here, too */
	if (send(socket, &word, 1, 0) != 1 || recv(socket, &word, 1, MSG_WAITALL) != 1)
		return 10;
	ibv_destroy_qp(loop.qp);
	if (ibv_dereg_mr(loop.own) || ibv_destroy_cq(loop.cq) || connect_loop(&loop, context, pd))
		return 11;
	if (carry_out(&loop, IBV_WR_RDMA_WRITE, (struct ibv_sge){ region.addr, 64, mr->lkey },
		      (uintptr_t)loop.memory, loop.own->rkey) != IBV_WC_LOC_PROT_ERR)
		return 12;
	ibv_unimport_mr(mr);
	return 0;
}

static void rule_09_import_mr_in_another_process(struct pair *pair)
{
	static char memory[2 * HALF] __attribute__((aligned(4096)));
	struct region region = { .addr = (uintptr_t)memory, .bytes = sizeof(memory) };
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	pid_t child;
	int socket;
	char word;

	child = start_importer(import_mr_there, &socket);
	context = side_open_device();
	pd = ibv_alloc_pd(context);
	for (uint32_t i = 0; i < HALF; i++)
		memory[i] = (char)pattern(3, i);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), ACCESS_ALL);
	REQUIRE(mr, "ibv_reg_mr");
	region.handle = mr->handle;
	send_fd(socket, context->cmd_fd, pd->handle);
	REQUIRE(send(socket, &region, sizeof(region), 0) == sizeof(region), "send");
	if (recv(socket, &word, 1, MSG_WAITALL) == 1) {
		REQUIRE(is_pattern(memory + HALF, HALF, 4), "what the other process wrote");
		REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
		REQUIRE(send(socket, &word, 1, MSG_NOSIGNAL) == 1, "send");
	}
	expect_imported(child);
}

#define DM_BYTES 8192

/* Device memory of another process: what one writes the other reads, and it can be registered. */
static int import_dm_there(int socket)
{
	uint64_t word = 0;
	uint32_t handle;
	struct ibv_context *context = ibv_import_device(receive_fd(socket, &handle));
	struct ibv_pd *pd;
	struct ibv_dm *dm;
	struct ibv_mr *mr;

	if (!context)
		return 1;
	dm = ibv_import_dm(context, handle);
	if (!dm || ibv_import_dm(context, handle + 1))
		return 2;
	if (ibv_memcpy_from_dm(&word, dm, 4096, 8) || word != 4711)
		return 3;
	word++;
	if (ibv_memcpy_to_dm(dm, 0, &word, 8) || !ibv_memcpy_to_dm(dm, DM_BYTES, &word, 8))
		return 4;
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_dm_mr(pd, dm, 0, DM_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	if (!mr || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		return 5;
	ibv_unimport_dm(dm);
	return ibv_close_device(context) ? 6 : 0;
}

static int import_dm_that_is_gone(int socket)
{
	uint32_t handle;
	struct ibv_context *context = ibv_import_device(receive_fd(socket, &handle));

	if (!context)
		return 1;
	return ibv_import_dm(context, handle) || errno != EINVAL ? 2 : 0;
}

static void rule_09_import_dm_in_another_process(struct pair *pair)
{
	struct ibv_alloc_dm_attr attr = { .length = DM_BYTES };
	pid_t child, late;
	struct ibv_context *context;
	uint64_t word = 4711;
	struct ibv_dm *dm;
	int socket, late_socket;

	child = start_importer(import_dm_there, &socket);
	late = start_importer(import_dm_that_is_gone, &late_socket);
	context = side_open_device();
	dm = ibv_alloc_dm(context, &attr);
	if (!dm)
		skip_because("no device memory");
	REQUIRE(ibv_memcpy_to_dm(dm, 4096, &word, 8) == 0, "ibv_memcpy_to_dm");
	send_fd(socket, context->cmd_fd, dm->handle);
	expect_imported(child);
	REQUIRE(ibv_memcpy_from_dm(&word, dm, 0, 8) == 0 && word == 4712,
		"what the other process wrote");
	REQUIRE(ibv_free_dm(dm) == 0, "ibv_free_dm");
	send_fd(late_socket, context->cmd_fd, 1);
	expect_imported(late);
	dm = ibv_alloc_dm(context, &attr);
	REQUIRE(dm && ibv_memcpy_from_dm(&word, dm, 0, 8) == 0 && word == 0,
		"new device memory is zeroed");
	REQUIRE(ibv_free_dm(dm) == 0 && ibv_close_device(context) == 0, "closing");
}

static const struct test tests[] = {
	HERE(rule_09_import_device),
	HERE(rule_09_import_pd_and_mr),
	HERE(rule_09_import_dm),
	HERE(rule_09_import_in_another_process),
	HERE(rule_09_import_dm_in_another_process),
	HERE(rule_09_import_mr_in_another_process),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
