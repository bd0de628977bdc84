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
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .num_sge = 1, .sge = { { a->addr, 4096, mr->lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, 0, 4096, 4);
	post_send(b, 0, WRITE(a, 8192, .wr_id = 2, .length = 4096, .rkey = mr->rkey));
	expect(b, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(a, 8192, 4096, 4);
	/* an import given back leaves the region alone */
	ibv_unimport_mr(mr);
	post_send(a, 0, WRITE(b, 4096, .wr_id = 3, .length = 4096));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	/* destroyed by way of an import, its key is dead */
	mr = ibv_import_mr(pd, a->side->mr->handle);
	REQUIRE(mr && ibv_dereg_mr(mr) == 0, "ibv_dereg_mr of an import");
	post_send(a, 0, WRITE(b, 0, .wr_id = 4, .length = 64));
	expect(a, SENDS, 4, IBV_WC_LOC_PROT_ERR);
	ibv_unimport_mr(a->side->mr);
	other = ibv_reg_mr(pd, a->side->buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(other, "ibv_reg_mr in an imported PD");
	REQUIRE(ibv_dealloc_pd(a->side->pd) == EBUSY, "the PD is in use by way of its import");
	REQUIRE(ibv_dereg_mr(other) == 0, "ibv_dereg_mr");
	/* given back before its last object, it goes with that */
	ibv_unimport_pd(pd);
	REQUIRE(ibv_dealloc_pd(a->side->pd) == EBUSY, "a QP is left");
	REQUIRE(ibv_destroy_qp(a->side->qp[0]) == 0, "ibv_destroy_qp");
	REQUIRE(ibv_dealloc_pd(a->side->pd) == 0, "ibv_dealloc_pd");
	REQUIRE(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(own) == 0 && ibv_close_device(context) == 0,
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
	REQUIRE(ibv_free_dm(dm) == 0, "ibv_free_dm");
	REQUIRE(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "closing");
}

static void send_fd(int to, int fd, uint32_t handle)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &handle, sizeof(handle) };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
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
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd;

	REQUIRE(recvmsg(from, &message, 0) == sizeof(*handle) && CMSG_FIRSTHDR(&message), "recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

/* What another process does with a cmd_fd that it was sent: status 0, or the step that failed. */
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
	if (!mr || ibv_import_mr(pd, 1))
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

static void rule_09_import_in_another_process(struct pair *pair)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	int sockets[2], status;
	pid_t child;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
	child = fork();
	if (child == 0) {
		runner_become_peer();
		close(sockets[0]);
		_exit(import_there(sockets[1]));
	}
	context = side_open_device();
	pd = ibv_alloc_pd(context);
	REQUIRE(pd, "ibv_alloc_pd");
	send_fd(sockets[0], context->cmd_fd, pd->handle);
	REQUIRE(waitpid(child, &status, 0) == child, "waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		skip_because("no import across processes");
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
	REQUIRE(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
}

static const struct test tests[] = {
	HERE(rule_09_import_device),
	HERE(rule_09_import_pd_and_mr),
	HERE(rule_09_import_dm),
	HERE(rule_09_import_in_another_process),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
