/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are built with the headers of a newer rdma-core: the structures that have grown
 * since version 44 are spelled out here, as such a program's compiler lays them out.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include "expect.h"

/* rdma-core 45 and later; the headers at hand may be such */
struct newer_qp_ex {
	char older[352];
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
			 uint8_t type, uint8_t level);
};

/* rdma-core 62 and later */
struct newer_port_attr {
	char older[52];
	uint32_t active_speed_ex;
};

#define WR_FLUSH_OFFSET	     352
#define WC_FLUSH	     8
#define QP_EX_WITH_FLUSH     (1 << 11)
#define ACCESS_FLUSH_GLOBAL  (1 << 8)
#define ACCESS_FLUSH_PERSIST (1 << 9)
#define FLUSH_GLOBAL	     1
#define FLUSH_PERSISTENT     2
#define FLUSH_RANGE	     0
#define FLUSH_MR	     1
#define DEVICE_FLUSH_GLOBAL  (UINT64_C(1) << 38)
#define DEVICE_FLUSH_PERSIST (UINT64_C(1) << 39)
#define DEVICE_ATOMIC_WRITE  (UINT64_C(1) << 40)
#define FLUSH_RIGHTS	     (ACCESS_ALL | ACCESS_FLUSH_GLOBAL)
#define OPS                                                                                        \
	(IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE |              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	struct newer_qp_ex *newer;

	memcpy(&newer, &qp, sizeof(newer));
	newer->wr_flush(qp, rkey, remote_addr, len, type, level);
}

static uint64_t capabilities(struct ibv_context *context)
{
	struct ibv_device_attr_ex device;

	REQUIRE(ibv_query_device_ex(context, NULL, &device) == 0, "ibv_query_device_ex");
	return device.device_cap_flags_ex;
}

/* Gives end `a` a QP with builders in place of its own, connected to that of `b`. */
static struct ibv_qp_ex *connect_builder(struct pair *pair, const struct options *options)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_init_attr_ex init = { .qp_type = options->type,
					    .cap = options->cap,
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = OPS };
	struct ibv_qp *qp;

	pair_make(pair, options);
	init.pd = a->side->pd;
	init.send_cq = a->side->cq[SENDS];
	init.recv_cq = a->side->cq[RECEIVES];
	qp = ibv_create_qp_ex(a->side->context, &init);
	if (!qp && errno == EOPNOTSUPP)
		skip_because("neither ATOMIC_WRITE nor FLUSH");
	REQUIRE(qp, "ibv_create_qp_ex: %s", strerror(errno));
	REQUIRE(ibv_destroy_qp(a->side->qp[0]) == 0, "ibv_destroy_qp");
	a->side->qp[0] = qp;
	a->qpn[0] = qp->qp_num;
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	return ibv_qp_to_qp_ex(qp);
}

static void begin(struct ibv_qp_ex *qp, uint64_t wr_id)
{
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
}

/* Eight bytes arrive in one piece, and completions say what they are. */
static void rule_09_atomic_write(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_ex *qp = connect_builder(pair, WITH(.cap = { .max_send_wr = 16,
								   .max_recv_wr = 16,
								   .max_send_sge = 1,
								   .max_recv_sge = 1 }));
	uint64_t value = 0x0123456789abcdef;
	struct ibv_wc wc;

	REQUIRE(capabilities(a->side->context) & DEVICE_ATOMIC_WRITE, "device_cap_flags_ex");
	fill(a, 0, 4096, 7);
	poke(b, 64, 0);
	begin(qp, 1);
	ibv_wr_rdma_write(qp, b->rkey, b->addr + 4096);
	ibv_wr_set_sge(qp, a->lkey, a->addr, 4096);
	qp->wr_id = 2;
	ibv_wr_atomic_write(qp, b->rkey, b->addr + 64, &value);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	value = 0; /* the post has copied it */
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	wc = expect(a, SENDS, 2, IBV_WC_SUCCESS);
	REQUIRE(wc.opcode == IBV_WC_ATOMIC_WRITE, "opcode %d", wc.opcode);
	REQUIRE(peek(b, 64) == 0x0123456789abcdef, "0x%llx", (unsigned long long)peek(b, 64));
	expect_bytes(b, 4096, 4096, 7);
	/* and by ibv_post_send, from an SGE */
	poke(a, 8, 42);
	post_send(a, 0,
		  REQUEST(.wr_id = 3, .opcode = IBV_WR_ATOMIC_WRITE, TO(b, 72), .offset = 8,
			  .length = 8));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	REQUIRE(peek(b, 72) == 42, "%llu", (unsigned long long)peek(b, 72));
	post_send(a, 0, REQUEST(.wr_id = 4, .opcode = IBV_WR_ATOMIC_WRITE, TO(b, 72), .length = 4));
	expect(a, SENDS, 4, IBV_WC_LOC_LEN_ERR);
	REQUIRE(peek(b, 72) == 42, "%llu", (unsigned long long)peek(b, 72));
}

/* Between start and complete no verb is forbidden but posts to this QP. */
static void rule_09_verbs_while_building(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_ex *qp = connect_builder(pair, WITH());
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	begin(qp, 1);
	ibv_wr_rdma_write(qp, b->rkey, b->addr);
	REQUIRE(ibv_query_qp(a->side->qp[0], &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
	post_receive(a, 0, RECEIVE(.wr_id = 50, .length = 64));
	REQUIRE(ibv_req_notify_cq(a->side->cq[SENDS], 0) == 0, "ibv_req_notify_cq");
	REQUIRE(ibv_poll_cq(a->side->cq[SENDS], 1, &wc) == 0, "ibv_poll_cq");
	ibv_wr_set_sge(qp, a->lkey, a->addr, 64);
	post_send(b, 0, SEND(.wr_id = 2, .length = 64)); /* which arrives meanwhile */
	expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
	expect(b, SENDS, 2, IBV_WC_SUCCESS);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	end_move(a, b, 0, IBV_QPS_ERR);
	begin(qp, 3);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, a->lkey, a->addr, 64);
	post_receive(a, 0, RECEIVE(.wr_id = 51, .length = 64));
	expect(a, RECEIVES, 51, IBV_WC_WR_FLUSH_ERR);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	expect(a, SENDS, 3, IBV_WC_WR_FLUSH_ERR);
}

static void expect_atomic_write(struct pair *pair, struct ibv_qp_ex *qp, uint32_t rkey,
				uint64_t addr, enum ibv_wc_status status)
{
	uint64_t value = 1;

	poke(&pair->b, 64, 99);
	begin(qp, 1);
	ibv_wr_atomic_write(qp, rkey, addr, &value);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	expect(&pair->a, SENDS, 1, status);
	REQUIRE(peek(&pair->b, 64) == 99, "something was written");
}

static void rule_19_atomic_write_unaligned(struct pair *pair)
{
	struct ibv_qp_ex *qp = connect_builder(pair, WITH());

	expect_atomic_write(pair, qp, pair->b.rkey, pair->b.addr + 65, IBV_WC_REM_INV_REQ_ERR);
	expect_async(&pair->b, 0, IBV_EVENT_QP_REQ_ERR);
}

static void rule_17_atomic_write_rkey(struct pair *pair)
{
	struct ibv_qp_ex *qp = connect_builder(pair, WITH());

	expect_atomic_write(pair, qp, pair->b.rkey ^ 0x3300, pair->b.addr + 64,
			    IBV_WC_REM_ACCESS_ERR);
	expect_async(&pair->b, 0, IBV_EVENT_QP_ACCESS_ERR);
}

static void rule_17_atomic_write_right(struct pair *pair)
{
	struct ibv_qp_ex *qp = connect_builder(
		pair, WITH(.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC));

	expect_atomic_write(pair, qp, pair->b.rkey, pair->b.addr + 64, IBV_WC_REM_ACCESS_ERR);
}

/* Earlier WRITEs are there when the FLUSH completes; both levels. */
static void rule_09_flush(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_ex *qp =
		connect_builder(pair, WITH(.access = FLUSH_RIGHTS, .qp_access = FLUSH_RIGHTS));
	struct ibv_wc wc;

	REQUIRE((char *)&((struct newer_qp_ex *)qp)->wr_flush - (char *)qp == WR_FLUSH_OFFSET,
		"the place of wr_flush");
	REQUIRE(capabilities(a->side->context) & DEVICE_FLUSH_GLOBAL, "device_cap_flags_ex");
	fill(a, 0, 65536, 3);
	fill(b, 0, 65536, 0);
	begin(qp, 1);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, b->rkey, b->addr);
	ibv_wr_set_sge(qp, a->lkey, a->addr, 65536);
	qp->wr_id = 2;
	qp->wr_flags = IBV_SEND_SIGNALED;
	wr_flush(qp, b->rkey, b->addr, 65536, FLUSH_GLOBAL, FLUSH_RANGE);
	qp->wr_id = 3;
	wr_flush(qp, b->rkey, 0, 0, FLUSH_GLOBAL, FLUSH_MR);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	wc = expect(a, SENDS, 2, IBV_WC_SUCCESS);
	REQUIRE((int)wc.opcode == WC_FLUSH, "opcode %d", wc.opcode);
	expect_bytes(b, 0, 65536, 3);
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	begin(qp, 4);
	wr_flush(qp, b->rkey, b->addr, 64, 0, FLUSH_RANGE);
	REQUIRE(ibv_wr_complete(qp) != 0, "no placement type");
	begin(qp, 4);
	wr_flush(qp, b->rkey, b->addr, 64, FLUSH_GLOBAL, 7);
	REQUIRE(ibv_wr_complete(qp) != 0, "selectivity level 7");
	expect_none(a, SENDS);
}

static void expect_flush(struct pair *pair, struct ibv_qp_ex *qp, uint32_t rkey, size_t length,
			 uint8_t type, enum ibv_wc_status status)
{
	begin(qp, 1);
	wr_flush(qp, rkey, pair->b.addr, length, type, FLUSH_RANGE);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	expect(&pair->a, SENDS, 1, status);
}

static void rule_17_flush_range(struct pair *pair)
{
	const struct options *options = WITH(.access = FLUSH_RIGHTS, .qp_access = FLUSH_RIGHTS);
	struct ibv_qp_ex *qp = connect_builder(pair, options);

	expect_flush(pair, qp, pair->b.rkey, options->size, FLUSH_GLOBAL, IBV_WC_SUCCESS);
	expect_flush(pair, qp, pair->b.rkey, options->size + 1, FLUSH_GLOBAL,
		     IBV_WC_REM_ACCESS_ERR);
}

static void rule_17_flush_region_without_the_right(struct pair *pair)
{
	struct ibv_qp_ex *qp = connect_builder(pair, WITH(.qp_access = FLUSH_RIGHTS));

	expect_flush(pair, qp, pair->b.rkey, 64, FLUSH_GLOBAL, IBV_WC_REM_ACCESS_ERR);
}

static void rule_17_flush_qp_without_the_right(struct pair *pair)
{
	struct ibv_qp_ex *qp = connect_builder(pair, WITH(.access = FLUSH_RIGHTS));

	expect_flush(pair, qp, pair->b.rkey, 64, FLUSH_GLOBAL, IBV_WC_REM_INV_REQ_ERR);
}

/* Where nothing is persistent, neither a region nor a FLUSH can be. */
static void rule_17_flush_type(struct pair *pair)
{
	struct ibv_qp_ex *qp =
		connect_builder(pair, WITH(.access = FLUSH_RIGHTS,
					   .qp_access = FLUSH_RIGHTS | ACCESS_FLUSH_PERSIST));
	struct side *side = pair->a.side;

	if (!(capabilities(side->context) & DEVICE_FLUSH_PERSIST))
		REQUIRE(!ibv_reg_mr(side->pd, side->buf, 4096, FLUSH_RIGHTS | ACCESS_FLUSH_PERSIST),
			"a persistent region");
	expect_flush(pair, qp, pair->b.rkey, 64, FLUSH_PERSISTENT, IBV_WC_REM_ACCESS_ERR);
}

/* Services without it refuse at creation. */
static void rule_12_not_of_this_service(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UC,
					    .cap = WITH()->cap,
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .pd = side->pd,
					    .send_cq = side->cq[SENDS],
					    .recv_cq = side->cq[RECEIVES] };
	const uint64_t ops[] = { IBV_QP_EX_WITH_ATOMIC_WRITE, QP_EX_WITH_FLUSH };

	for (int i = 0; i < 2; i++) {
		init.send_ops_flags = ops[i];
		REQUIRE(!ibv_create_qp_ex(side->context, &init), "UC with ops 0x%llx",
			(unsigned long long)ops[i]);
	}
}

/* The caller passes the length of its struct; unknown fields become zero. */
static void rule_09_longer_port_attr(struct pair *pair)
{
	struct ibv_context *context = side_open_device();
	struct verbs_context *verbs = verbs_get_ctx_op(context, query_port);
	struct {
		struct newer_port_attr attr;
		uint32_t canary;
	} port;

	memset(&port, 0xa5, sizeof(port));
	REQUIRE(verbs, "query_port");
	REQUIRE(verbs->query_port(context, 1, (struct ibv_port_attr *)&port.attr,
				  sizeof(port.attr)) == 0,
		"ibv_query_port");
	REQUIRE(port.attr.active_speed_ex == 0 && port.canary == 0xa5a5a5a5, "its end");
	REQUIRE(verbs->query_port(context, 1, (struct ibv_port_attr *)&port.attr, 48) == 0,
		"ibv_query_port");
}

/* rdma-core 65: its ops above query_port are found at their distance, and are NULL. */
struct newer_verbs_context {
	/* free_buf, alloc_buf, dm_export_dmabuf_fd, reg_mr_ex, dealloc_dmah, alloc_dmah */
	void *ops[6];
	void *query_port;
	char older[320 - 2 * sizeof(void *)]; /* query_port is 320 bytes before the context */
	size_t sz;
	struct ibv_context context;
};

static void rule_09_longer_context(struct pair *pair)
{
	struct ibv_context *context = side_open_device();
	struct newer_verbs_context *newer =
		(struct newer_verbs_context *)((char *)context -
					       offsetof(struct newer_verbs_context, context));

	_Static_assert(sizeof(struct newer_verbs_context) == 656 + sizeof(pthread_mutex_t),
		       "verbs_context of rdma-core 65");
	REQUIRE(context->abi_compat == __VERBS_ABI_IS_EXTENDED, "abi_compat");
	for (int i = 0; i < 6; i++) {
		bool there = newer->sz >= sizeof(*newer) - i * sizeof(void *);

		REQUIRE(!there || !newer->ops[i], "op %d is neither there nor absent", i);
	}
	REQUIRE(newer->query_port ==
			(void *)(uintptr_t)verbs_get_ctx_op(context, query_port)->query_port,
		"query_port is elsewhere");
}

/* A longer struct of attributes is filled as far as known; the rest is zero. */
static void rule_09_longer_device_attr(struct pair *pair)
{
	struct ibv_context *context = side_open_device();
	struct {
		struct ibv_device_attr_ex older;
		uint64_t newer[4];
	} attr;

	memset(&attr, 0xa5, sizeof(attr));
	REQUIRE(verbs_get_ctx_op(context, query_device_ex)
				->query_device_ex(context, NULL, &attr.older, sizeof(attr)) == 0,
		"ibv_query_device_ex");
	for (int i = 0; i < 4; i++)
		REQUIRE(attr.newer[i] == 0, "word %d of its end", i);
	REQUIRE(attr.older.orig_attr.max_qp > 0, "its beginning");
}

static void *newer_symbol(const char *name, const char *version)
{
	void *symbol = dlvsym(RTLD_DEFAULT, name, version);

	REQUIRE(symbol, "%s@%s: %s", name, version, dlerror());
	return symbol;
}

/* How a verb says that it is not offered. */
enum refusal { GIVES_NULL, GIVES_ERRNO, GIVES_MINUS_ONE };

/* The verbs of 45 to 65 are there in their versions, and work or say that they are not offered. */
static void rule_09_newer_verbs(struct pair *pair)
{
	static const struct {
		const char *name, *version;
		enum refusal refusal;
	} verbs[] = {
		{ "ibv_alloc_dmah", "IBVERBS_1.15", GIVES_NULL },
		{ "ibv_dealloc_dmah", "IBVERBS_1.15", GIVES_ERRNO },
		{ "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16", GIVES_MINUS_ONE },
		{ "_ibv_query_comp_cntr_caps", "IBVERBS_1.18", GIVES_ERRNO },
		{ "ibv_create_comp_cntr", "IBVERBS_1.18", GIVES_NULL },
		{ "ibv_destroy_comp_cntr", "IBVERBS_1.18", GIVES_ERRNO },
		{ "ibv_qp_attach_comp_cntr", "IBVERBS_1.18", GIVES_ERRNO },
	};
	struct ibv_context *context = side_open_device();
	int (*query_port_speed)(struct ibv_context *, uint32_t, uint64_t *);
	uint64_t speed = 0;

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		void *symbol = newer_symbol(verbs[i].name, verbs[i].version);
		void *(*making)(void *, void *);
		int (*doing)(void *, void *), result;

		memcpy(&making, &symbol, sizeof(symbol));
		memcpy(&doing, &symbol, sizeof(symbol));
		errno = 0;
		if (verbs[i].refusal == GIVES_NULL) {
			REQUIRE(!making(context, NULL) && errno == EOPNOTSUPP, "%s", verbs[i].name);
			continue;
		}
		result = doing(context, NULL);
		REQUIRE(verbs[i].refusal == GIVES_ERRNO ? result == EOPNOTSUPP
							: result == -1 && errno == EOPNOTSUPP,
			"%s: %d", verbs[i].name, result);
	}
	{
		void *symbol = newer_symbol("ibv_query_port_speed", "IBVERBS_1.16");

		memcpy(&query_port_speed, &symbol, sizeof(symbol));
	}
	REQUIRE(query_port_speed(context, 1, &speed) == 0 && speed == 1000, "%llu00 Mbit/s",
		(unsigned long long)speed);
	REQUIRE(query_port_speed(context, 2, &speed) == EINVAL, "port 2");
}

/* ibv_mr_init_attr of rdma-core 64, and its comp_mask */
struct newer_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};
enum { MASK_IOVA = 1, MASK_ADDR = 2, MASK_FD = 4, MASK_DMAH = 16, MASK_BUF = 32 };

/* Verbs that the headers at hand may lack; the struct and enum pointers are void here. */
struct buffer_verbs {
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, void **buf);
	void (*free_buf)(void *buf);
	struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *pd, void *buf, void *addr, size_t length,
				     int access);
	int (*export_buf_dmabuf_fd)(void *buf);
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct newer_mr_init_attr *attr);
};

static struct buffer_verbs find_buffer_verbs(void)
{
	static const char *const names[][2] = { { "ibv_alloc_buf", "IBVERBS_1.17" },
						{ "ibv_free_buf", "IBVERBS_1.17" },
						{ "ibv_reg_buf_mr", "IBVERBS_1.17" },
						{ "ibv_export_buf_dmabuf_fd", "IBVERBS_1.18" },
						{ "ibv_reg_mr_ex", "IBVERBS_1.15" } };
	struct buffer_verbs verbs;
	void *symbols[5];

	for (int i = 0; i < 5; i++)
		symbols[i] = newer_symbol(names[i][0], names[i][1]);
	_Static_assert(sizeof(symbols) == sizeof(verbs), "a pointer each");
	memcpy(&verbs, symbols, sizeof(verbs));
	return verbs;
}

/* A buffer of the library, registered whole and in part, is like any memory. */
static void rule_09_buffers(struct pair *pair)
{
	const struct buffer_verbs verbs = find_buffer_verbs();
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_pd *other;
	struct ibv_mr *all, *part;
	char *bytes;
	void *buf;

	pair_connect(pair, WITH());
	REQUIRE(!verbs.alloc_buf(a->side->pd, 0, &buf) && errno == EINVAL, "0 bytes");
	REQUIRE(!verbs.alloc_buf(a->side->pd, SIZE_MAX / 2, &buf) && errno == ENOMEM, "too many");
	bytes = verbs.alloc_buf(a->side->pd, 8192, &buf);
	REQUIRE(bytes, "ibv_alloc_buf: %s", strerror(errno));
	all = verbs.reg_buf_mr(a->side->pd, buf, bytes, 8192, ACCESS_ALL);
	part = verbs.reg_buf_mr(a->side->pd, buf, bytes + 4096, 4096, ACCESS_ALL);
	REQUIRE(all && part && all->lkey != part->lkey && part->addr == bytes + 4096,
		"ibv_reg_buf_mr: %s", strerror(errno));
	memset(bytes + 4096, 0x5a, 4096);
	post_send(a, 0,
		  WRITE(b, 0, .wr_id = 1, .num_sge = 1,
			.sge = { { (uintptr_t)bytes + 4096, 4096, part->lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(peek(b, 0) == 0x5a5a5a5a5a5a5a5a && peek(b, 4088) == 0x5a5a5a5a5a5a5a5a,
		"0x%llx, 0x%llx", (unsigned long long)peek(b, 0),
		(unsigned long long)peek(b, 4088));
	REQUIRE(!verbs.reg_buf_mr(a->side->pd, buf, bytes, 8193, 0) && errno == EINVAL, "longer");
	REQUIRE(!verbs.reg_buf_mr(a->side->pd, buf, bytes - 1, 8, 0) && errno == EINVAL, "before");
	other = ibv_alloc_pd(a->side->context);
	REQUIRE(other && !verbs.reg_buf_mr(other, buf, bytes, 64, 0) && errno == EINVAL,
		"another PD");
	REQUIRE(ibv_dealloc_pd(other) == 0, "ibv_dealloc_pd");
	REQUIRE(verbs.export_buf_dmabuf_fd(buf) == -1 && errno == ENODATA, "no dma-buf");
	REQUIRE(ibv_dereg_mr(part) == 0 && ibv_dereg_mr(all) == 0, "ibv_dereg_mr");
	verbs.free_buf(buf);
	verbs.free_buf(NULL);
}

/* Registration by a struct: an address or a descriptor, and what goes with it. */
static void rule_09_registration_by_struct(struct pair *pair)
{
	static const struct {
		uint64_t mask;
		int error;
	} refused[] = {
		{ 0, EINVAL },
		{ MASK_IOVA, EINVAL },
		{ MASK_ADDR | MASK_FD, EINVAL },
		{ MASK_ADDR | MASK_DMAH, EOPNOTSUPP },
		{ MASK_FD | MASK_BUF, EINVAL },
		{ MASK_ADDR | 1 << 20, EOPNOTSUPP },
		{ MASK_ADDR | 8 /* FD_OFFSET */, EINVAL },
	};
	const struct buffer_verbs verbs = find_buffer_verbs();
	struct side *side = side_open(WITH());
	struct newer_mr_init_attr attr = { .length = 4096,
					   .access = ACCESS_ALL,
					   .comp_mask = MASK_ADDR | MASK_IOVA,
					   .iova = 0x10000,
					   .addr = side->buf };
	struct ibv_mr *mr = verbs.reg_mr_ex(side->pd, &attr);
	void *buf;

	REQUIRE(mr && mr->addr == side->buf && mr->length == 4096, "ibv_reg_mr_ex: %s",
		strerror(errno));
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	attr.addr = verbs.alloc_buf(side->pd, 4096, &buf);
	attr.buf = buf;
	attr.comp_mask = MASK_ADDR | MASK_BUF;
	mr = verbs.reg_mr_ex(side->pd, &attr);
	REQUIRE(mr, "a buffer: %s", strerror(errno));
	attr.length++;
	REQUIRE(!verbs.reg_mr_ex(side->pd, &attr) && errno == EINVAL, "beyond the buffer");
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	verbs.free_buf(buf);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		attr.comp_mask = refused[i].mask;
		REQUIRE(!verbs.reg_mr_ex(side->pd, &attr) && errno == refused[i].error,
			"comp_mask 0x%llx: %s", (unsigned long long)attr.comp_mask,
			strerror(errno));
	}
}

static void rule_37_atomics_by_builders(struct pair *pair)
{
	static const uint32_t lengths[] = { 4, 9, 16 };
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_ex *qp = connect_builder(pair, WITH());

	for (int i = 0; i < 6; i++) {
		poke(b, 64, 5);
		fill(a, 0, 64, 0);
		begin(qp, 1);
		if (i % 2)
			ibv_wr_atomic_cmp_swp(qp, b->rkey, b->addr + 64, 5, 6);
		else
			ibv_wr_atomic_fetch_add(qp, b->rkey, b->addr + 64, 1);
		ibv_wr_set_sge(qp, a->lkey, a->addr, lengths[i / 2]);
		REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
		expect(a, SENDS, 1, IBV_WC_LOC_LEN_ERR);
		REQUIRE(peek(b, 64) == 5, "the target is %llu", (unsigned long long)peek(b, 64));
		expect_bytes(a, 0, 64, 0);
		end_move(a, b, 0, IBV_QPS_RESET);
		end_move(b, a, 0, IBV_QPS_RESET);
		end_ready(a, b, 0);
		end_ready(b, a, 0);
	}
}

static const struct test tests[] = {
	HERE(rule_09_longer_port_attr),
	HERE(rule_09_longer_context),
	HERE(rule_09_longer_device_attr),
	HERE(rule_09_newer_verbs),
	PAIR(rule_09_buffers),
	HERE(rule_09_registration_by_struct),
	HERE(rule_09_verbs_while_building),
	PAIR(rule_09_atomic_write),
	PAIR(rule_19_atomic_write_unaligned),
	PAIR(rule_17_atomic_write_rkey),
	PAIR(rule_17_atomic_write_right),
	PAIR(rule_09_flush),
	PAIR(rule_17_flush_range),
	PAIR(rule_17_flush_region_without_the_right),
	PAIR(rule_17_flush_qp_without_the_right),
	PAIR(rule_17_flush_type),
	HERE(rule_12_not_of_this_service),
	PAIR(rule_37_atomics_by_builders),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
