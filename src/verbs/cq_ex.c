/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/cq_ex.h"

#include <errno.h>

#include "adapter/progress.h"
#include "base/clock.h"

static struct cq *cq_ex_of(struct ibv_cq_ex *ex)
{
	return (struct cq *)ex;
}

static bool pop(struct cq *cq)
{
	if (!cq_pop_current(cq))
		return false;
	cq->ex.status = (enum ibv_wc_status)cq->current.status;
	cq->ex.wr_id = cq->current.wr_id;
	return true;
}

/* The analysis assumes that the lock is taken; a single-threaded CQ does not take it. */
static void poll_lock(struct cq *cq) ACQUIRES(cq->poll_lock) NO_LOCK_CHECK
{
	if (!cq->single_threaded)
		lock_acquire(&cq->poll_lock);
}

static void poll_unlock(struct cq *cq) RELEASES(cq->poll_lock) NO_LOCK_CHECK
{
	if (!cq->single_threaded)
		lock_release(&cq->poll_lock);
}

/* 0 leaves the CQ locked until end_poll. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
	LOCK_ATTR(try_acquire_capability(0, cq_ex_of(ex)->poll_lock))
{
	struct cq *cq = cq_ex_of(ex);

	if (attr && attr->comp_mask)
		return EINVAL;
	if (cq_is_empty(cq)) {
		adapter_progress();
		if (cq_is_empty(cq) && !(adapter_on_empty() && !cq_is_empty(cq))) {
			cq_on_found_empty(cq);
			return ENOENT;
		}
	} else {
		adapter_on_completions();
	}
	poll_lock(cq);
	if (pop(cq))
		return 0;
	poll_unlock(cq);
	return ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return pop(cq_ex_of(ex)) ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex) RELEASES(cq_ex_of(ex)->poll_lock)
{
	poll_unlock(cq_ex_of(ex));
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	const struct cqe *cqe = &cq_ex_of(ex)->current;

	return (enum ibv_wc_opcode)(cqe->opcode | (cqe->kind == CQE_RECEIVE ? IBV_WC_RECV : 0));
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.dlid_path_bits;
}

/* hca_core_clock is 1 GHz, so a tick of the adapter is a nanosecond of CLOCK_MONOTONIC. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_ex_of(ex)->current.timestamp_ns;
}

/* The present time of CLOCK_REALTIME, less the age of the completion. */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	uint64_t ago_ns = clock_now_ns() - cq_ex_of(ex)->current.timestamp_ns;

	return clock_realtime_ns() - ago_ns;
}

void cq_ex_init(struct cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	/*
	 * NULL otherwise, so that a program that reads a field without requesting it crashes at
	 * once.
	 */
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
