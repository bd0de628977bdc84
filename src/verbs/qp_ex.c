/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp_ex.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cause.h"
#include "object/mw.h"
#include "base/compat.h"
#include "memory/hold.h"
#include "verbs/post.h"

/* after struct ibv_qp, whose mutex and condition variable have the architecture's sizes */
static_assert(offsetof(struct compat_qp_ex, wr_flush) == sizeof(struct ibv_qp) + 192,
	      "the ABI's place of wr_flush");
static_assert(sizeof(struct ibv_qp_ex) <= sizeof(struct compat_qp_ex), "no newer member is lost");

int qp_ex_check(unsigned type, uint64_t send_ops_flags)
{
	if (!(send_ops_flags & ~opcode_send_ops(type)))
		return 0;
	cause_report(CAUSE_OPCODE_UNSUPPORTED, 0, "send_ops_flags 0x%llx of QP type %d",
		     (unsigned long long)send_ops_flags, type);
	return EOPNOTSUPP;
}

static struct qp *qp_ex_of(struct ibv_qp_ex *ex)
{
	return (struct qp *)ex;
}

/* Keeps the first error, which ibv_wr_complete returns. */
static void fail(struct qp *qp, int error)
{
	if (!qp->builder_error)
		qp->builder_error = error;
}

/* Checks the last request once its setters are done. */
static void end_request(struct qp *qp)
{
	struct wqe *wqe = qp->builder_wqe;
	int error;

	qp->builder_wqe = NULL;
	if (!wqe)
		return;
	error = qp->builder_error ? 0 : sq_end(&qp->builder_sq, wqe);
	if (error)
		fail(qp, error);
	if (qp->builder_error)
		sq_drop(&qp->builder_sq, wqe);
}

/* Begins the next request. NULL: an earlier one failed, or the SQ is full. */
static struct wqe *begin_request(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct qp *qp = qp_ex_of(ex);
	struct wqe *wqe;
	int error;

	end_request(qp);
	if (qp->builder_error)
		return NULL;
	/* A thread that polls has freed places meanwhile. */
	atomic_store_explicit(&qp->builder_sq.released,
			      atomic_load_explicit(&qp->sq.released, memory_order_acquire),
			      memory_order_release);
	error = sq_begin(&qp->builder_sq, opcode, ex->wr_id, ex->wr_flags, &wqe);
	if (error) {
		fail(qp, error);
		return NULL;
	}
	qp->builder_wqe = wqe;
	return wqe;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin_request(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct wqe *wqe = begin_request(ex, IBV_WR_SEND_WITH_IMM);

	if (wqe)
		wqe->imm = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct wqe *wqe = begin_request(ex, IBV_WR_SEND_WITH_INV);

	if (wqe)
		wqe->imm = invalidate_rkey;
}

static struct wqe *begin_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
				uint64_t remote_addr)
{
	struct wqe *wqe = begin_request(ex, opcode);

	if (wqe) {
		wqe->rkey = rkey;
		wqe->remote_addr = remote_addr;
	}
	return wqe;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	struct wqe *wqe = begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wqe)
		wqe->imm = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_remote(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct wqe *wqe = begin_remote(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

	if (wqe)
		wqe->operands = (struct operands){ swap, compare };
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct wqe *wqe = begin_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr);

	if (wqe)
		wqe->operands = (struct operands){ .swap_add = add };
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *bind_info)
{
	struct wqe *wqe = begin_request(ex, IBV_WR_BIND_MW);

	if (wqe)
		sq_set_bind(wqe, mw, rkey, bind_info);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct wqe *wqe = begin_request(ex, IBV_WR_LOCAL_INV);

	if (wqe)
		wqe->imm = invalidate_rkey;
}

static void error_report(struct ibv_qp_ex *ex, const char *what)
{
	struct qp *qp = qp_ex_of(ex);

	end_request(qp);
	cause_report(CAUSE_UNSUPPORTED, qp->ib.qp_num, "%s", what);
	fail(qp, EOPNOTSUPP);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	error_report(ex, "ibv_wr_send_tso");
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct qp *qp = qp_ex_of(ex);

	if (!qp->builder_wqe || qp->builder_error)
		return;
	if (qp->type != IBV_QPT_XRC_SEND) {
		cause_report(CAUSE_WRONG_TYPE, qp->ib.qp_num, "ibv_wr_set_xrc_srqn, QP type %d",
			     qp->type);
		fail(qp, EINVAL);
		return;
	}
	qp->builder_wqe->remote_srqn = remote_srqn;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	struct wqe *wqe = begin_remote(ex, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);

	if (!wqe)
		return;
	/* Inline: 8 bytes fit into every request, whatever max_inline_data is. */
	wqe->flags |= IBV_SEND_INLINE;
	wqe->length = sizeof(uint64_t);
	memcpy(wqe->inline_data, atomic_wr, sizeof(uint64_t));
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	struct wqe *wqe;

	/* the FETH's fields have these bits; the RETH's length has 32 bits (IBA 9.4.4.2) */
	if (!type || type & ~(COMPAT_FLUSH_GLOBAL | COMPAT_FLUSH_PERSISTENT) ||
	    level > COMPAT_FLUSH_MR || len > UINT32_MAX) {
		struct qp *qp = qp_ex_of(ex);

		end_request(qp);
		cause_report(CAUSE_ARGUMENT_INVALID, qp->ib.qp_num,
			     "ibv_wr_flush: type 0x%x, level %u, %zu bytes", type, level, len);
		fail(qp, EINVAL);
		return;
	}
	wqe = begin_remote(ex, (enum ibv_wr_opcode)COMPAT_WR_FLUSH, rkey, remote_addr);
	if (!wqe)
		return;
	wqe->length = (uint32_t)len;
	wqe->operands = (struct operands){ type, level };
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct qp *qp = qp_ex_of(ex);

	if (!qp->builder_wqe || qp->builder_error)
		return;
	if (qp->type != IBV_QPT_UD) {
		cause_report(CAUSE_WRONG_TYPE, qp->ib.qp_num, "ibv_wr_set_ud_addr, QP type %d",
			     qp->type);
		fail(qp, EINVAL);
		return;
	}
	fail(qp, sq_set_ah(&qp->builder_sq, qp->builder_wqe, ah, remote_qpn, remote_qkey));
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct qp *qp = qp_ex_of(ex);

	if (qp->builder_wqe && !qp->builder_error)
		fail(qp, sq_set_sges(&qp->builder_sq, qp->builder_wqe, sg_list, num_sge));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct qp *qp = qp_ex_of(ex);
	struct wqe *wqe = qp->builder_wqe;

	if (!wqe || qp->builder_error)
		return;
	fail(qp, sq_set_inline(&qp->builder_sq, wqe));
	for (size_t i = 0; i < num_buf && !qp->builder_error; i++)
		fail(qp, sq_add_inline(&qp->builder_sq, wqe, buf_list[i].addr, buf_list[i].length));
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void start(struct qp *qp) ACQUIRES(qp->builder_lock)
{
	lock_acquire(&qp->builder_lock);
	qp_building++;
	lock_acquire(&qp->lock);
	memcpy(&qp->builder_sq, &qp->sq, offsetof(struct sq, released));
	qp->builder_error = post_check_state(qp);
	lock_release(&qp->lock);
	qp->builder_start = qp->builder_sq.tail;
	qp->builder_wqe = NULL;
}

static void leave(struct qp *qp) RELEASES(qp->builder_lock)
{
	qp_building--;
	lock_release(&qp->builder_lock);
	if (!qp_building)
		hold_point();
}

/* The requests are the QP's from now on. Its state may have changed since the start. */
static void post(struct qp *qp) REQUIRES(qp->lock)
{
	if (!qp->builder_error)
		fail(qp, post_check_state(qp));
	if (qp->builder_error) {
		sq_roll_back(&qp->builder_sq, qp->builder_start);
		return;
	}
	qp->sq.tail = qp->builder_sq.tail;
	if (qp->sq.tail != qp->builder_start)
		post_done(qp, qp->builder_start);
}

static int complete(struct qp *qp) RELEASES(qp->builder_lock)
{
	int error;

	end_request(qp);
	lock_acquire(&qp->lock);
	post(qp);
	qp->sq.full_reported |= qp->builder_sq.full_reported;
	lock_release(&qp->lock);
	error = qp->builder_error;
	leave(qp);
	return error;
}

static void abandon(struct qp *qp) RELEASES(qp->builder_lock)
{
	fail(qp, ECANCELED);
	end_request(qp);
	sq_roll_back(&qp->builder_sq, qp->builder_start);
	leave(qp);
}

static void wr_start(struct ibv_qp_ex *ex) ACQUIRES(qp_ex_of(ex)->builder_lock)
{
	start(qp_ex_of(ex));
}

static int wr_complete(struct ibv_qp_ex *ex) RELEASES(qp_ex_of(ex)->builder_lock)
{
	return complete(qp_ex_of(ex));
}

static void wr_abort(struct ibv_qp_ex *ex) RELEASES(qp_ex_of(ex)->builder_lock)
{
	abandon(qp_ex_of(ex));
}

void qp_ex_init(struct qp *qp, uint64_t send_ops_flags)
{
	struct ibv_qp_ex *ex = &qp->ex;

	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	/* librpma looks whether these are there, and then uses them */
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
	if (send_ops_flags & COMPAT_QP_EX_WITH_FLUSH)
		qp->newest.wr_flush = wr_flush;
	qp->has_ex = true;
}
