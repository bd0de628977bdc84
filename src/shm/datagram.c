/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/datagram.h"

#include <errno.h>
#include <string.h>

#include "base/gid.h"
#include "base/lid.h"
#include "execute/receive.h"
#include "memory/memory.h"
#include "object/ah.h"
#include "object/context.h"
#include "object/qp_table.h"
#include "packet/grh.h"
#include "shm/attention.h"
#include "shm/backoff.h"
#include "shm/waiting.h"

#define GROUP_SLOTS		64 /* members of a group that one datagram reaches */
#define UDP_BTH_DETH_ICRC_BYTES (8 + 12 + 8 + 4)

/* As on a wire (IBA A17.4.5.2). */
static void build_header(uint8_t *grh, const struct ah *ah, uint32_t payload)
{
	const struct grh_fields fields = {
		.source = ah->sgid.raw,
		.destination = ah->attr.grh.dgid.raw,
		.traffic_class = ah->attr.grh.traffic_class,
		.hop_limit = ah->attr.grh.hop_limit,
		.flow_label = ah->attr.grh.flow_label,
		.udp_bytes = UDP_BTH_DETH_ICRC_BYTES + payload,
	};

	grh_build(grh, &fields);
}

static enum cause copy_payload(struct qp *qp, struct wqe *wqe, uint8_t *to)
{
	const uint8_t *data = wqe_data(wqe);

	if (data) {
		memcpy(to, data, wqe->length);
		return CAUSE_NONE;
	}
	return memory_gather(wqe->sge, wqe->num_sge, qp->pd->number, 0, to, wqe->length);
}

static enum issue_result send_to(struct qp *qp, struct wqe *wqe, struct link *link,
				 enum cause *cause)
{
	uint32_t bytes = GRH_BYTES + wqe->length;
	uint32_t flags = RECORD_FIRST | RECORD_LAST;
	struct record *record;

	if (wqe->flags & IBV_SEND_SOLICITED)
		flags |= RECORD_SOLICITED;
	if (opcodes[wqe->opcode].has_imm)
		flags |= RECORD_IMM;
	if (wqe->ah->without_grh)
		flags |= RECORD_NO_GRH;
	lock_acquire(&link->tx_lock);
	record = link->alive ? ring_reserve(&link->tx, bytes, RING_FOR_NAKS) : NULL;
	if (record) {
		record->header.dst_qpn = gid_is_multicast(wqe->ah->attr.grh.dgid.raw)
						 ? MULTICAST_QPN
						 : wqe->remote_qpn;
		record->header.src_qpn = qp->ib.qp_num;
		record->header.msn = 0;
		record->header.total = bytes;
		record->header.bytes = bytes;
		record->header.imm = wqe->imm;
		/* a Q_Key with the highest bit set stands for the QP's own (IBA 10.2.5) */
		record->header.rkey =
			wqe->remote_qkey & 0x80000000 ? qp->attr.qkey : wqe->remote_qkey;
		record->header.remote_addr = 0;
		record->header.acked = 0; /* datagrams are not acknowledged */
		build_header(record->payload, wqe->ah, wqe->length);
		*cause = copy_payload(qp, wqe, record->payload + GRH_BYTES);
		if (*cause == CAUSE_NONE)
			ring_publish(&link->tx, record, record_word(RECORD_DATAGRAM, flags, bytes));
	}
	lock_release(&link->tx_lock);
	if (record && *cause == CAUSE_NONE)
		attention_announce(link);
	return record ? ISSUE_DONE : ISSUE_NO_ROOM;
}

static enum issue_result send_failed(struct shm_qp *lq, struct wqe *wqe, enum ibv_wc_status status,
				     enum cause cause)
{
	uint32_t seq = lq->qp->sq.issue++;

	lq->sought = false;
	shm_sendq_fail(lq, seq, status, cause, "datagram of %u bytes to QP 0x%06x", wqe->length,
		       wqe->remote_qpn);
	return ISSUE_FAILED;
}

/*
 * True: the datagram was sent, or is lost, and so are *sent - 1 behind it, of at most `most`;
 * false: *result says why not.
 */
static bool send_to_wire(struct shm_qp *lq, struct wqe *wqe, unsigned most, unsigned *sent,
			 enum issue_result *result)
{
	enum cause cause = CAUSE_NONE;
	int error = 0;

	*sent = 1;
	if (shm_env.datagrams_to_wire)
		error = shm_env.datagrams_to_wire(lq->qp, most, sent, &cause);
	if (error == -EAGAIN && shm_backoff_on_wire_full(lq, wqe))
		*result = ISSUE_WAIT;
	else if (error == -EINPROGRESS && shm_backoff_on_unknown(lq))
		*result = ISSUE_WAIT;
	else if (error == -EFAULT)
		*result = send_failed(lq, wqe,
				      cause == CAUSE_MESSAGE_TOO_LONG ? IBV_WC_LOC_LEN_ERR
								      : IBV_WC_LOC_PROT_ERR,
				      cause);
	else {
		/* its port was not opened in time, or the socket is full for too long: it is lost
		 */
		if (error)
			*sent = 1;
		return true;
	}
	return false;
}

/* To another host alone: those that follow to the same address leave with it. */
static enum issue_result send_to_host(struct shm_qp *lq, struct wqe *wqe)
{
	struct sq *sq = &lq->qp->sq;
	enum issue_result result;
	unsigned sent;

	if (!send_to_wire(lq, wqe, sq->tail - sq->issue, &sent, &result))
		return result;
	lq->sought = false;
	for (unsigned i = 0; i < sent; i++)
		wqe_finish(sq_wqe(sq, sq->issue + i), IBV_WC_SUCCESS, CAUSE_NONE);
	sq->issue += sent - 1; /* the caller counts the last one */
	return ISSUE_DONE;
}

/* False: the adapter has asked verbatimd about at least one of them. */
static bool all_known(const uint32_t *slots, int count)
{
	bool known = true;

	for (int i = 0; i < count; i++) {
		bool asked = false;
		struct link *link = shm_env.find_link(slots[i], &asked);

		if (link)
			link_put(link);
		known &= link || !asked;
	}
	return known;
}

enum issue_result datagram_send(struct shm_qp *lq, struct wqe *wqe)
{
	struct qp *qp = lq->qp;
	const union ibv_gid *to = &wqe->ah->attr.grh.dgid;
	bool group = gid_is_multicast(to->raw);
	uint32_t slots[GROUP_SLOTS];
	enum cause cause = CAUSE_NONE;
	enum issue_result result;
	unsigned sent;
	int count = 0;

	if (wqe->ah->pd_number != qp->pd->number) /* IBA C10-10 */
		return send_failed(lq, wqe, IBV_WC_LOC_QP_OP_ERR, CAUSE_OTHER_PD);
	if (wqe->length > qp_mtu(qp))
		return send_failed(lq, wqe, IBV_WC_LOC_LEN_ERR, CAUSE_MESSAGE_TOO_LONG);
	if (!wqe_data(wqe)) {
		cause = memory_check(wqe->sge, wqe->num_sge, qp->pd->number, 0);
		if (cause != CAUSE_NONE)
			return send_failed(lq, wqe, IBV_WC_LOC_PROT_ERR, cause);
	}
	if (!group && !wqe->ah->local)
		return send_to_host(lq, wqe);
	if (group) {
		bool asked = false;

		count = shm_env.group_members(to, slots, GROUP_SLOTS, &asked);
		if ((asked || !all_known(slots, count)) && shm_backoff_on_unknown(lq))
			return ISSUE_WAIT;
		if (asked)
			cause_report_ratelimited(
				CAUSE_DAEMON_SILENT, qp->ib.qp_num,
				"the members of a group; the datagram goes to the %d known", count);
	}
	/*
	 * The network comes first: a datagram that waits for it must not reach members here twice.
	 */
	if (group && !send_to_wire(lq, wqe, 1, &sent, &result))
		return result;
	if (!group)
		slots[count++] = wqe->remote_qpn >> ARENA_QP_BITS;
	for (int i = 0; i < count; i++) {
		bool asked = false;
		struct link *link = shm_env.find_link(slots[i], &asked);

		if (!link && asked && !group && shm_backoff_on_unknown(lq))
			return ISSUE_WAIT;
		if (!link)
			continue; /* no such process: dropped, as on a wire */
		/*
		 * A datagram waits a moment for a full ring, as for a port with priority flow
		 * control; if the receiver does not empty its ring in time, it is lost.
		 */
		if (send_to(qp, wqe, link, &cause) == ISSUE_NO_ROOM && !group && !wqe->route &&
		    link->alive) {
			shm_waiting_for_room(lq, link);
			shm_backoff_on_full(lq);
			link_put(link);
			return ISSUE_NO_ROOM;
		}
		link_put(link);
		if (cause != CAUSE_NONE)
			return send_failed(lq, wqe, IBV_WC_LOC_PROT_ERR, cause);
	}
	lq->sought = false;
	wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
	return ISSUE_DONE;
}

/* Copies the 40 bytes of this link mode's GRH, then the data. */
static enum cause scatter(struct qp *qp, const struct record_header *header, const uint8_t *payload,
			  struct receive_end *end)
{
	uint8_t grh[GRH_BYTES];
	enum cause cause;

	if (!qp->context->infiniband)
		return receive_scatter(qp, 0, payload, header->bytes);
	memcpy(grh, payload, GRH_BYTES);
	end->slid = lid_rewrite_grh(grh);
	if (record_flags(header) & RECORD_NO_GRH) {
		end->wc_flags &= ~(uint32_t)IBV_WC_GRH;
		memset(grh, 0, sizeof(grh));
	}
	cause = receive_scatter(qp, 0, grh, GRH_BYTES);
	if (cause != CAUSE_NONE)
		return cause;
	return receive_scatter(qp, GRH_BYTES, payload + GRH_BYTES, header->bytes - GRH_BYTES);
}

void datagram_deliver(struct qp *qp, const struct record_header *header, const uint8_t *payload)
	REQUIRES(qp->lock)
{
	struct receive_end end = {
		.opcode = IBV_WC_RECV,
		.wc_flags = IBV_WC_GRH,
		.imm = header->imm,
		.src_qp = header->src_qpn,
		.solicited = record_flags(header) & RECORD_SOLICITED,
	};
	enum cause cause;

	if (header->bytes < GRH_BYTES || !receive_takes_datagrams(qp)) {
		cause_report_ratelimited(CAUSE_UD_NO_QP, qp->ib.qp_num, "from QP 0x%06x",
					 header->src_qpn);
		return;
	}
	if (header->rkey != qp->attr.qkey) {
		cause_report_ratelimited(CAUSE_QKEY_MISMATCH, qp->ib.qp_num,
					 "0x%x from QP 0x%06x, mine is 0x%x", header->rkey,
					 header->src_qpn, qp->attr.qkey);
		return;
	}
	if (!receive_take(qp)) {
		cause_report_ratelimited(CAUSE_UD_NO_RECEIVE, qp->ib.qp_num, "from QP 0x%06x",
					 header->src_qpn);
		return;
	}
	if (header->bytes > qp->receive.length) {
		cause_report_ratelimited(CAUSE_UD_TOO_LONG, qp->ib.qp_num,
					 "%u bytes with GRH, the receive takes %u", header->bytes,
					 qp->receive.length);
		return; /* the next datagram gets this receive */
	}
	cause = scatter(qp, header, payload, &end);
	if (cause != CAUSE_NONE) {
		cause_report(cause, qp->ib.qp_num, "datagram from QP 0x%06x", header->src_qpn);
		receive_fault(qp, &end, cause);
		return;
	}
	if (record_flags(header) & RECORD_IMM)
		end.wc_flags |= IBV_WC_WITH_IMM;
	end.byte_len = header->bytes;
	receive_complete(qp, &end);
}

struct delivery {
	const struct record_header *header;
	const uint8_t *payload;
};

static void deliver_to(uint32_t qpn, void *arg)
{
	const struct delivery *delivery = arg;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return;
	datagram_deliver(qp, delivery->header, delivery->payload);
	cq_give_events();
	qp_unlock(qp);
}

void datagram_deliver_group(const struct record_header *header, const uint8_t *payload)
{
	struct delivery delivery = { header, payload };
	union ibv_gid group;

	if (header->bytes < GRH_BYTES)
		return;
	grh_destination(group.raw, payload);
	shm_env.group_visit(&group, deliver_to, &delivery);
}
