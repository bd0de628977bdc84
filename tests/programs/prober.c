// SPDX-License-Identifier: BSD-2-Clause
/*
 * What NCCL does with verbs: it is not linked to libibverbs, but looks up each function by its
 * version; it finds devices and GIDs by sysfs; connects RC QPs by TCP; writes with relaxed
 * ordering, tells the peer by a WRITE with immediate data of no bytes, and flushes by a READ over a
 * QP that is connected to itself.
 *
 *     prober ADDRESS [PEER]     without PEER it is the server, at port 18515
 */
#define _GNU_SOURCE // dlvsym
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

enum {
	PORT = 18515,
	BYTES = 4 << 20,
	PSN = 0,
	RELAXED = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_RELAXED_ORDERING,
};

// Each with the version that NCCL asks for.
#define FUNCTIONS(f)                                                                               \
	f(struct ibv_device **, get_device_list, "IBVERBS_1.1", int *) f(                          \
		void, free_device_list, "IBVERBS_1.1",                                             \
		struct ibv_device **) f(const char *, get_device_name, "IBVERBS_1.1",              \
					struct ibv_device *) f(struct ibv_context *, open_device,  \
							       "IBVERBS_1.1", struct ibv_device *) \
		f(int, close_device, "IBVERBS_1.1", struct ibv_context *) f(                       \
			int, query_device, "IBVERBS_1.1", struct ibv_context *,                    \
			struct ibv_device_attr *) f(int, query_port, "IBVERBS_1.1",                \
						    struct ibv_context *, uint8_t,                 \
						    struct ibv_port_attr *)                        \
			f(int, query_gid, "IBVERBS_1.1", struct ibv_context *, uint8_t, int,       \
			  union ibv_gid *) f(struct ibv_pd *, alloc_pd, "IBVERBS_1.1",             \
					     struct ibv_context *) f(int, dealloc_pd,              \
								     "IBVERBS_1.1",                \
								     struct ibv_pd *)              \
				f(struct ibv_mr *, reg_mr_iova2, "IBVERBS_1.8", struct ibv_pd *,   \
				  void *, size_t, uint64_t,                                        \
				  unsigned int) f(struct ibv_mr *, reg_dmabuf_mr, "IBVERBS_1.12",  \
						  struct ibv_pd *, uint64_t, size_t, uint64_t,     \
						  int, int) f(int, dereg_mr, "IBVERBS_1.1",        \
							      struct ibv_mr *)                     \
					f(struct ibv_cq *, create_cq, "IBVERBS_1.1",               \
					  struct ibv_context *, int, void *,                       \
					  struct ibv_comp_channel *,                               \
					  int) f(int, destroy_cq, "IBVERBS_1.1",                   \
						 struct ibv_cq *) f(struct ibv_qp *, create_qp,    \
								    "IBVERBS_1.1",                 \
								    struct ibv_pd *,               \
								    struct ibv_qp_init_attr *)     \
						f(int, modify_qp, "IBVERBS_1.1", struct ibv_qp *,  \
						  struct ibv_qp_attr *,                            \
						  int) f(int, destroy_qp, "IBVERBS_1.1",           \
							 struct ibv_qp *) f(int, query_ece,        \
									    "IBVERBS_1.10",        \
									    struct ibv_qp *,       \
									    struct ibv_ece *)      \
							f(int, set_ece, "IBVERBS_1.10",            \
							  struct ibv_qp *, struct ibv_ece *)       \
								f(const char *, event_type_str,    \
								  "IBVERBS_1.1",                   \
								  enum ibv_event_type)             \
									f(const char *,            \
									  wc_status_str,           \
									  "IBVERBS_1.1",           \
									  enum ibv_wc_status)

#define DECLARE(type, name, version, ...) static type (*name)(__VA_ARGS__);
#define LOOK_UP(type, name, version, ...)                                                          \
	name = (type(*)(__VA_ARGS__))look_up(library, "ibv_" #name, version);

FUNCTIONS(DECLARE)

// What the ends tell each other.
struct end {
	uint32_t qpn, rkey;
	uint64_t address;
	union ibv_gid gid;
	struct ibv_ece ece;
};

static struct ibv_context *context;
static int gid_index = -1;
static union ibv_gid gid;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *receive_cq;
static struct ibv_port_attr port;
static unsigned char *memory;
static struct ibv_mr *mr;
static int peer = -1; // a socket

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("BAD %s (%s): ", #condition, strerror(errno));                      \
			printf(__VA_ARGS__);                                                       \
			printf("\n");                                                              \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void *look_up(void *library, const char *name, const char *version)
{
	void *function = dlvsym(library, name, version);

	CHECK(function, "%s of %s", name, version);
	return function;
}

static void load(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);

	CHECK(library, "%s", dlerror());
	FUNCTIONS(LOOK_UP)
	CHECK(strcmp(event_type_str(IBV_EVENT_PORT_ACTIVE), "port active") == 0, "its name");
}

// A line of a file in the sysfs of a port; empty if there is none.
static void read_line(const char *device, const char *file, int index, char *line, size_t size)
{
	char path[256];
	FILE *stream;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/%s/%d", device, file, index);
	stream = fopen(path, "r");
	line[0] = '\0';
	if (stream) {
		if (!fgets(line, (int)size, stream))
			line[0] = '\0';
		fclose(stream);
		line[strcspn(line, "\n")] = '\0';
	}
}

// The GID that stands for the address, by RoCE v2. Sysfs and verbs have to agree on it.
static void choose_gid(const char *device, struct in_addr address)
{
	char type[64], text[64], shown[64];

	for (int i = 0; i < port.gid_tbl_len && gid_index < 0; i++) {
		read_line(device, "gid_attrs/types", i, type, sizeof(type));
		if (strcmp(type, "RoCE v2") != 0)
			continue;
		CHECK(query_gid(context, 1, i, &gid) == 0, "GID %d", i);
		read_line(device, "gids", i, shown, sizeof(shown));
		for (int word = 0; word < 8; word++)
			sprintf(text + word * 5, "%02x%02x:", gid.raw[word * 2],
				gid.raw[word * 2 + 1]);
		text[39] = '\0';
		CHECK(strcmp(text, shown) == 0, "GID %d is %s, in sysfs %s", i, text, shown);
		if (IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw) &&
		    memcmp(gid.raw + 12, &address, 4) == 0)
			gid_index = i;
	}
}

// Goes through all devices, for a port that is up and has the address.
static void find(struct in_addr address)
{
	struct ibv_device_attr attr;
	int count;
	struct ibv_device **list = get_device_list(&count);

	CHECK(list && count, "%d devices", count);
	for (int i = 0; i < count && gid_index < 0; i++) {
		context = open_device(list[i]);
		CHECK(context, "%s", get_device_name(list[i]));
		CHECK(query_device(context, &attr) == 0 && attr.phys_port_cnt == 1, "its ports");
		CHECK(query_port(context, 1, &port) == 0, "port 1");
		if (port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET)
			choose_gid(get_device_name(list[i]), address);
		if (gid_index < 0)
			CHECK(close_device(context) == 0, "%s", get_device_name(list[i]));
		else
			printf("ok %s, GID %d\n", get_device_name(list[i]), gid_index);
	}
	CHECK(gid_index >= 0, "no GID of the address");
	free_device_list(list);
}

// As NCCL finds out whether there are dma-bufs: by a descriptor that is none.
static void probe_dmabuf(void)
{
	errno = 0;
	CHECK(!reg_dmabuf_mr(pd, 0, 0, 0, -1, 0), "a region of no dma-buf");
	CHECK(errno == EBADF || errno == EOPNOTSUPP || errno == EPROTONOSUPPORT, "of a dma-buf");
	printf("ok dma-bufs: %s\n", strerror(errno));
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = receive_cq,
		.cap = { .max_send_wr = 256,
			 .max_recv_wr = 256,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp *qp = create_qp(pd, &init);

	CHECK(qp, "a QP");
	CHECK(modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
	      "INIT");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t qpn, union ibv_gid to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = port.active_mtu,
		.dest_qp_num = qpn,
		.rq_psn = PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .grh = { .dgid = to, .sgid_index = gid_index, .hop_limit = 255 },
			     .port_num = 1 },
	};

	CHECK(modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
		      0,
	      "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 20,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .sq_psn = PSN,
				     .max_rd_atomic = 1 };
	CHECK(modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
	      "RTS");
}

static void meet(struct in_addr address, const char *server)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr = address };
	int on = 1, stream = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(stream >= 0, "a socket");
	if (server) {
		inet_pton(AF_INET, server, &to.sin_addr);
		CHECK(connect(stream, (struct sockaddr *)&to, sizeof(to)) == 0, "%s", server);
		peer = stream;
		return;
	}
	setsockopt(stream, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(bind(stream, (struct sockaddr *)&to, sizeof(to)) == 0, "port %d", PORT);
	CHECK(listen(stream, 1) == 0, "port %d", PORT);
	peer = accept(stream, NULL, NULL);
	CHECK(peer >= 0, "nobody");
	close(stream);
}

static void exchange(const void *own, void *other, size_t size)
{
	CHECK(write(peer, own, size) == (ssize_t)size, "to the peer");
	CHECK(recv(peer, other, size, MSG_WAITALL) == (ssize_t)size, "from the peer");
}

// The next completion, which has to be of this operation, and good.
static void complete(struct ibv_cq *cq, enum ibv_wc_opcode opcode, struct ibv_wc *wc)
{
	while (context->ops.poll_cq(cq, 1, wc) == 0)
		continue;
	CHECK(wc->status == IBV_WC_SUCCESS, "%s", wc_status_str(wc->status));
	CHECK(wc->opcode == opcode, "opcode %d, not %d", wc->opcode, opcode);
}

static unsigned char pattern(size_t i, size_t length)
{
	return i * 13 + (i >> 8) * 7 + (i >> 16) * 3 + length;
}

// A WRITE, and one with immediate data that tells how long it was.
static void send_data(struct ibv_qp *qp, const struct end *to, size_t length)
{
	struct ibv_sge sge = { (uintptr_t)memory, length, mr->lkey };
	struct ibv_send_wr last = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				    .send_flags = IBV_SEND_SIGNALED,
				    .imm_data = htonl(length) };
	struct ibv_send_wr first = {
		.next = &last, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	first.wr.rdma.remote_addr = to->address;
	first.wr.rdma.rkey = to->rkey;
	for (size_t i = 0; i < length; i++)
		memory[i] = pattern(i, length);
	CHECK((errno = qp->context->ops.post_send(qp, &first, &bad)) == 0, "WRITE");
	complete(send_cq, IBV_WC_RDMA_WRITE, &wc);
}

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;

	CHECK((errno = qp->context->ops.post_recv(qp, &wr, &bad)) == 0, "a receive");
}

// What was written has arrived once a byte of it has been read over a QP that is connected to
// itself.
static void flush(struct ibv_qp *self)
{
	unsigned char byte = ~memory[0];
	struct ibv_mr *byte_mr =
		reg_mr_iova2(pd, &byte, 1, (uintptr_t)&byte, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)&byte, 1, byte_mr ? byte_mr->lkey : 0 };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	CHECK(byte_mr, "a region of a byte");
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK((errno = self->context->ops.post_send(self, &wr, &bad)) == 0, "READ");
	complete(send_cq, IBV_WC_RDMA_READ, &wc);
	CHECK(byte == memory[0], "the byte is %d, not %d", byte, memory[0]);
	CHECK(dereg_mr(byte_mr) == 0, "a region of a byte");
}

static void receive_data(struct ibv_qp *qp, struct ibv_qp *self, size_t length)
{
	struct ibv_wc wc;

	complete(receive_cq, IBV_WC_RECV_RDMA_WITH_IMM, &wc);
	CHECK(ntohl(wc.imm_data) == length, "%u bytes, not %zu", ntohl(wc.imm_data), length);
	flush(self);
	for (size_t i = 0; i < length; i++)
		CHECK(memory[i] == pattern(i, length), "byte %zu of %zu is %u", i, length,
		      memory[i]);
	post_receive(qp);
}

static void move_data(struct ibv_qp *qp, struct ibv_qp *self, const struct end *to, int first)
{
	for (size_t length = 1 << 20; length <= BYTES; length += 1 << 20) {
		if (first)
			send_data(qp, to, length);
		receive_data(qp, self, length);
		if (!first)
			send_data(qp, to, length);
		printf("ok %zu bytes\n", length);
	}
}

static void set_up(void)
{
	pd = alloc_pd(context);
	send_cq = create_cq(context, 256, NULL, NULL, 0);
	receive_cq = create_cq(context, 256, NULL, NULL, 0);
	memory = aligned_alloc(4096, BYTES);
	CHECK(pd && send_cq && receive_cq && memory, "a PD, CQs and memory");
	mr = reg_mr_iova2(pd, memory, BYTES, (uintptr_t)memory, RELAXED);
	CHECK(mr, "a region with relaxed ordering");
}

static void tear_down(struct ibv_qp *qp, struct ibv_qp *self)
{
	CHECK(destroy_qp(self) == 0 && destroy_qp(qp) == 0, "the QPs");
	CHECK(dereg_mr(mr) == 0, "the region");
	CHECK(destroy_cq(send_cq) == 0 && destroy_cq(receive_cq) == 0, "the CQs");
	CHECK(dealloc_pd(pd) == 0 && close_device(context) == 0, "the PD and the device");
}

int main(int argc, char **argv)
{
	const char *server = argc > 2 ? argv[2] : NULL;
	struct in_addr address;
	struct ibv_qp *qp, *self;
	struct end own = { 0 }, other;
	char ready = 0;

	if (argc < 2 || inet_pton(AF_INET, argv[1], &address) != 1)
		return 2;
	load();
	find(address);
	set_up();
	probe_dmabuf();
	self = new_qp();
	connect_qp(self, self->qp_num, gid);
	qp = new_qp();
	own = (struct end){ qp->qp_num, mr->rkey, (uintptr_t)memory, gid, { 0 } };
	CHECK((errno = query_ece(qp, &own.ece)) == 0, "ECE");
	meet(address, server);
	exchange(&own, &other, sizeof(own));
	CHECK((errno = set_ece(qp, &other.ece)) == 0, "ECE");
	connect_qp(qp, other.qpn, other.gid);
	post_receive(qp);
	exchange(&ready, &ready, 1);
	move_data(qp, self, &other, server != NULL);
	exchange(&ready, &ready, 1);
	tear_down(qp, self);
	printf("ok all\n");
	return 0;
}
