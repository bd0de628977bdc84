#include "local/onesided.h"

#include <errno.h>

#include "local/memory.h"
#include "local/reach.h"
#include "object/key.h"
#include "object/touch.h"

/* One system call moves so much. */
#define SLICE_BYTES (256 * 1024)

/* The target's QP answers to ours, and grants the right. */
static bool target_agrees(struct qp *qp, struct link *link, uint32_t right, uint32_t *pd)
{
	uint32_t index = qp->attr.dest_qp_num & (ARENA_QPS - 1);
	struct arena_qp *target = &link->peer_qps[index];
	uint32_t word = atomic_load_explicit(&target->word, memory_order_acquire);
	uint32_t state = ARENA_QP_STATE(word);

	*pd = target->pd;
	return word != 0 && ARENA_QP_TYPE(word) == qp->type &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	       target->dest_qpn == qp->ib.qp_num && (target->access & right);
}

/* The next slice's pieces of local memory; 0: *cause is set, or it cannot be done directly. */
static int local_pieces(struct qp *qp, struct wqe *wqe, size_t bytes, uint32_t access,
			struct iovec *iov, enum cause *cause)
{
	if (wqe->flags & IBV_SEND_INLINE) {
		*cause = CAUSE_NONE;
		iov[0] = (struct iovec){ wqe->inline_data + wqe->done, bytes };
		return 1;
	}
	return memory_pieces(wqe->sge, wqe->num_sge, qp->pd->number, access, wqe->done, bytes, iov,
			     SQ_SGE_MAX, cause);
}

static enum onesided copy_slice(struct qp *qp, struct wqe *wqe, struct link *link, uint64_t host,
				size_t bytes, enum cause *cause)
{
	bool read = wqe->opcode == IBV_WR_RDMA_READ;
	struct iovec iov[SQ_SGE_MAX];
	int pieces = local_pieces(qp, wqe, bytes, read ? IBV_ACCESS_LOCAL_WRITE : 0, iov, cause);

	if (!pieces)
		return *cause != CAUSE_NONE ? ONESIDED_LOCAL_ERROR : ONESIDED_BY_MESSAGE;
	switch (reach_copy(link, read ? REACH_READ : REACH_WRITE, iov, pieces, host, bytes)) {
	case 0:
		return ONESIDED_DONE;
	case -EFAULT:
		if (memory_probe(iov, pieces))
			return ONESIDED_BY_MESSAGE;
		*cause = CAUSE_MEMORY_FAULT_LOCAL;
		return ONESIDED_LOCAL_ERROR;
	default:
		return ONESIDED_BY_MESSAGE;
	}
}

enum onesided onesided_execute(struct qp *qp, struct wqe *wqe, int64_t *budget, enum cause *cause)
{
	struct link *link = local_of(qp)->link;
	bool read = wqe->opcode == IBV_WR_RDMA_READ;
	uint32_t right = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	enum onesided result = ONESIDED_DONE;
	uint32_t pd;

	if (!target_agrees(qp, link, right, &pd))
		return ONESIDED_BY_MESSAGE;
	while (wqe->done < wqe->length) {
		size_t bytes = wqe->length - wqe->done;
		struct arena_touch *touch;
		uint64_t host;
		uint32_t flags;

		if (*budget <= 0)
			return ONESIDED_TURN_OVER;
		if (bytes > SLICE_BYTES)
			bytes = SLICE_BYTES;
		touch = touch_begin(link->slot, wqe->rkey);
		/* the whole range, so that nothing is written if any of it is not allowed */
		if (key_check(link->peer_keys, wqe->rkey, pd, qp->attr.dest_qp_num,
			      wqe->remote_addr, wqe->length, right, &host, &flags) != KEY_OK ||
		    flags & KEY_NULL)
			result = ONESIDED_BY_MESSAGE;
		else
			result = copy_slice(qp, wqe, link, host + wqe->done, bytes, cause);
		touch_end(touch);
		if (result != ONESIDED_DONE)
			return result;
		wqe->done += bytes;
		*budget -= bytes;
	}
	return ONESIDED_DONE;
}
