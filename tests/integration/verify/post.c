/* SPDX-License-Identifier: BSD-2-Clause */
#include "post.h"

#include <arpa/inet.h>
#include <string.h>

#define CHAIN_MAX 256

#define FLUSH_GLOBAL 1
#define FLUSH_RANGE  0

/* rdma-core 45 and later */
struct newer_qp_ex {
	struct ibv_qp_ex older;
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
			 uint8_t type, uint8_t level);
};

static const struct {
	enum ibv_wr_opcode wr;
	enum ibv_wc_opcode wc;
} opcodes[OP_COUNT] = {
	[OP_SEND] = { IBV_WR_SEND, IBV_WC_SEND },
	[OP_SEND_IMM] = { IBV_WR_SEND_WITH_IMM, IBV_WC_SEND },
	[OP_WRITE] = { IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE },
	[OP_WRITE_IMM] = { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE },
	[OP_READ] = { IBV_WR_RDMA_READ, IBV_WC_RDMA_READ },
	[OP_CAS] = { IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP },
	[OP_FAA] = { IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD },
	[OP_ATOMIC_WRITE] = { IBV_WR_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE },
	[OP_WRITE_FLUSH] = { IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE },
};

enum ibv_wc_opcode post_wc_opcode(enum operation operation)
{
	return opcodes[operation].wc;
}

enum ibv_wc_opcode post_receive_wc_opcode(enum operation operation)
{
	return operation == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
}

static void describe(const struct endpoint *e, const struct request *r, struct ibv_send_wr *out)
{
	*out = (struct ibv_send_wr){
		.wr_id = r->wr_id,
		.sg_list = (struct ibv_sge *)r->pieces,
		.num_sge = r->piece_count,
		.opcode = opcodes[r->operation].wr,
		.send_flags = e->options->use_inline ? IBV_SEND_INLINE : 0,
	};
	out->imm_data = htonl(r->imm);
	if (e->options->service == IBV_QPT_UD) {
		out->wr.ud.ah = e->ah;
		out->wr.ud.remote_qpn = e->theirs.qpn;
		out->wr.ud.remote_qkey = ENDPOINT_QKEY;
	} else if (op_is_atomic(r->operation)) {
		out->wr.atomic.remote_addr = r->remote_addr;
		out->wr.atomic.rkey = r->rkey;
		out->wr.atomic.compare_add = r->compare_add;
		out->wr.atomic.swap = r->swap;
	} else {
		out->wr.rdma.remote_addr = r->remote_addr;
		out->wr.rdma.rkey = r->rkey;
	}
}

static void post_chain(struct endpoint *e, const struct request *requests, unsigned count)
{
	struct ibv_send_wr chain[CHAIN_MAX], *bad = NULL;
	int error;

	for (unsigned i = 0; i < count; i++) {
		describe(e, &requests[i], &chain[i]);
		chain[i].next = i + 1 < count ? &chain[i + 1] : NULL;
	}
	error = ibv_post_send(e->qp, chain, &bad);
	if (error)
		fail("ibv_post_send: %s, at request %td of %u", strerror(error),
		     bad ? bad - chain : -1, count);
}

static void call_operation(struct ibv_qp_ex *qp, const struct request *r)
{
	switch (r->operation) {
	case OP_SEND:
		ibv_wr_send(qp);
		break;
	case OP_SEND_IMM:
		ibv_wr_send_imm(qp, htonl(r->imm));
		break;
	case OP_WRITE:
		ibv_wr_rdma_write(qp, r->rkey, r->remote_addr);
		break;
	case OP_WRITE_IMM:
		ibv_wr_rdma_write_imm(qp, r->rkey, r->remote_addr, htonl(r->imm));
		break;
	case OP_READ:
		ibv_wr_rdma_read(qp, r->rkey, r->remote_addr);
		break;
	case OP_CAS:
		ibv_wr_atomic_cmp_swp(qp, r->rkey, r->remote_addr, r->compare_add, r->swap);
		break;
	case OP_FAA:
		ibv_wr_atomic_fetch_add(qp, r->rkey, r->remote_addr, r->compare_add);
		break;
	case OP_ATOMIC_WRITE: /* its data come with it */
		ibv_wr_atomic_write(qp, r->rkey, r->remote_addr,
				    (const void *)(uintptr_t)r->pieces[0].addr);
		break;
	case OP_WRITE_FLUSH:
		ibv_wr_rdma_write(qp, r->rkey, r->remote_addr);
		break;
	case OP_COUNT:
		break;
	}
}

static void call_flush(struct ibv_qp_ex *qp, const struct request *r)
{
	struct newer_qp_ex *newer;
	size_t length = 0;

	for (int i = 0; i < r->piece_count; i++)
		length += r->pieces[i].length;
	memcpy(&newer, &qp, sizeof(newer));
	newer->wr_flush(qp, r->rkey, r->remote_addr, length, FLUSH_GLOBAL, FLUSH_RANGE);
}

static void set_data(struct ibv_qp_ex *qp, const struct request *r, bool use_inline)
{
	struct ibv_data_buf buffers[ENDPOINT_PIECES_MAX];

	if (!use_inline) {
		ibv_wr_set_sge_list(qp, (size_t)r->piece_count, r->pieces);
		return;
	}
	for (int i = 0; i < r->piece_count; i++) {
		buffers[i].addr = (void *)(uintptr_t)r->pieces[i].addr;
		buffers[i].length = r->pieces[i].length;
	}
	ibv_wr_set_inline_data_list(qp, (size_t)r->piece_count, buffers);
}

static void build_chain(struct endpoint *e, const struct request *requests, unsigned count)
{
	int error;

	ibv_wr_start(e->qp_ex);
	for (unsigned i = 0; i < count; i++) {
		e->qp_ex->wr_id = requests[i].wr_id;
		e->qp_ex->wr_flags = e->options->use_inline ? IBV_SEND_INLINE : 0;
		call_operation(e->qp_ex, &requests[i]);
		if (e->options->service == IBV_QPT_UD)
			ibv_wr_set_ud_addr(e->qp_ex, e->ah, e->theirs.qpn, ENDPOINT_QKEY);
		if (requests[i].operation != OP_ATOMIC_WRITE)
			set_data(e->qp_ex, &requests[i], e->options->use_inline);
		if (requests[i].operation == OP_WRITE_FLUSH)
			call_flush(e->qp_ex, &requests[i]);
	}
	error = ibv_wr_complete(e->qp_ex);
	if (error)
		fail("ibv_wr_complete of %u requests: %s", count, strerror(error));
}

void post_send_chain(struct endpoint *e, const struct request *requests, unsigned count)
{
	if (count > CHAIN_MAX)
		fail("a chain of %u requests", count);
	if (e->qp_ex)
		build_chain(e, requests, count);
	else
		post_chain(e, requests, count);
}

void post_receive(struct endpoint *e, uint64_t wr_id, struct ibv_sge *pieces, int count)
{
	struct ibv_recv_wr request = { .wr_id = wr_id, .sg_list = pieces, .num_sge = count }, *bad;
	int error = ibv_post_recv(e->qp, &request, &bad);

	if (error)
		fail("ibv_post_recv: %s", strerror(error));
}
