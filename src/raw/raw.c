/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "base/check.h"
#include "memory/memory.h"
#include "execute/receive.h"
#include "raw/filter.h"
#include "raw/socket.h"

#define FRAMES_AT_ONCE 64
#define MACS_BYTES     12

/* Of a RAW_PACKET QP: qp->path_data. Guarded by the QP's lock. */
struct raw {
	struct raw_socket socket;
	struct list flows; /* struct flow */
	bool wants_room;
	uint8_t buffer[SOCKET_VLAN + SOCKET_FRAME_MAX];
};

static struct raw_env env;

void raw_init(const struct raw_env *given)
{
	env = *given;
}

static struct raw *raw_of(const struct qp *qp)
{
	return qp->path_data;
}

int raw_open(struct qp *qp, uint32_t ifindex)
{
	struct raw *raw = malloc(sizeof(*raw));
	int error = -ENOMEM;

	if (raw)
		error = socket_open(&raw->socket, ifindex);
	if (error) {
		free(raw);
		cause_report(error == -EPERM ? CAUSE_RAW_FORBIDDEN : CAUSE_RAW_FAILED,
			     qp->ib.qp_num, "%s", strerror(-error));
		return error;
	}
	list_init(&raw->flows);
	raw->wants_room = false;
	lock_acquire(&qp->lock);
	qp->path_data = raw;
	lock_release(&qp->lock);
	return 0;
}

int raw_fd(const struct qp *qp)
{
	return raw_of(qp)->socket.fd;
}

/* Gives the kernel a filter for the list. 0, or -errno: it keeps the one before. */
static int refilter(struct raw *raw)
{
	struct sock_filter *code = malloc(FILTER_MAX * sizeof(*code));
	int error = -ENOMEM;

	/* the longest program may exceed the socket's limit (net.core.optmem_max) */
	for (unsigned max = FILTER_MAX; code && error == -ENOMEM && max >= FILTER_MIN; max /= 16)
		error = socket_filter(&raw->socket, code,
				      filter_build(&raw->flows, &raw->socket.interface, code, max));
	free(code);
	return error;
}

static void insert(struct list *flows, struct flow *flow)
{
	struct list *pos;

	list_for_each(pos, flows)
		if (list_entry(pos, struct flow, link)->priority > flow->priority)
			break;
	list_add_tail(pos, &flow->link);
}

int raw_add_flow(struct qp *qp, struct flow *flow)
{
	struct raw *raw;
	int error;

	lock_acquire(&qp->lock);
	raw = raw_of(qp);
	error = socket_let_in(&raw->socket, flow, true);
	if (!error) {
		insert(&raw->flows, flow);
		error = refilter(raw);
		if (error) {
			list_del(&flow->link);
			socket_let_in(&raw->socket, flow, false);
		}
	}
	if (!error)
		atomic_fetch_add(&qp->attachments, 1);
	lock_release(&qp->lock);
	if (error)
		cause_report(CAUSE_FLOW_REFUSED, qp->ib.qp_num, "%s", strerror(-error));
	return error;
}

void raw_remove_flow(struct qp *qp, struct flow *flow)
{
	struct raw *raw;

	lock_acquire(&qp->lock);
	raw = raw_of(qp);
	list_del(&flow->link);
	/*
	 * A filter that lets in too much does no harm: each frame is judged by the flows that are
	 * left.
	 */
	refilter(raw);
	socket_let_in(&raw->socket, flow, false);
	atomic_fetch_sub(&qp->attachments, 1);
	lock_release(&qp->lock);
}

static void want_room(struct raw *raw, bool wanted)
{
	if (raw->wants_room == wanted)
		return;
	raw->wants_room = wanted;
	env.want_room(raw->socket.fd, wanted);
}

static void finish(struct qp *qp, struct wqe *wqe, enum ibv_wc_status status, enum cause cause)
{
	wqe_finish(wqe, status, cause);
	if (status != IBV_WC_SUCCESS)
		cause_report(cause, qp->ib.qp_num, "frame of %u bytes", wqe->length);
}

/* False: there is no room now. */
static bool send_frame(struct qp *qp, struct wqe *wqe)
{
	struct raw *raw = raw_of(qp);
	const void *frame = wqe->inline_data;
	enum cause cause = CAUSE_NONE;

	if (wqe->length < SOCKET_FRAME_MIN || wqe->length > SOCKET_FRAME_MAX) {
		finish(qp, wqe, IBV_WC_LOC_LEN_ERR, CAUSE_FRAME_LENGTH);
		return true;
	}
	if (!(wqe->flags & IBV_SEND_INLINE)) {
		frame = raw->buffer;
		cause = memory_gather(wqe->sge, wqe->num_sge, qp->pd->number, 0, raw->buffer,
				      wqe->length);
	}
	if (cause != CAUSE_NONE) {
		finish(qp, wqe, IBV_WC_LOC_PROT_ERR, cause);
		return true;
	}
	switch (socket_send(&raw->socket, frame, wqe->length)) {
	case SOCKET_FULL:
		return false;
	case SOCKET_TOO_LONG:
		finish(qp, wqe, IBV_WC_LOC_LEN_ERR, CAUSE_FRAME_LENGTH);
		return true;
	default: /* sent, or lost as on a wire */
		finish(qp, wqe, IBV_WC_SUCCESS, CAUSE_NONE);
		return true;
	}
}

static void issue(struct qp *qp)
{
	struct sq *sq = &qp->sq;
	bool room = true;

	while (room && sq->issue != sq->tail && qp_state(qp) == IBV_QPS_RTS) {
		room = send_frame(qp, sq_wqe(sq, sq->issue));
		if (room) {
			sq->issue++;
			qp_retire(qp);
		}
	}
	want_room(raw_of(qp), !room);
	CHECK(qp_check(qp));
}

/* Puts the tag back into its place after the addresses. */
static const uint8_t *restore_vlan(struct socket_arrival *arrival, uint8_t *buffer,
				   uint32_t *length)
{
	uint16_t tag[2] = { htons(arrival->vlan_type), htons(arrival->frame.vlan) };

	*length = (uint32_t)arrival->frame.length;
	if (!arrival->frame.has_vlan || arrival->frame.length < MACS_BYTES)
		return arrival->frame.bytes;
	*length += SOCKET_VLAN;
	memmove(buffer, buffer + SOCKET_VLAN, MACS_BYTES);
	memcpy(buffer + MACS_BYTES, tag, sizeof(tag));
	return buffer;
}

/* The first flow that takes this frame, or NULL. */
static struct flow *find_flow(const struct raw *raw, const struct socket_arrival *arrival)
{
	bool returns = !arrival->outgoing ||
		       (arrival->frame.length >= SOCKET_FRAME_MIN &&
			filter_returns(&raw->socket.interface, arrival->frame.bytes));
	struct list *pos;

	list_for_each(pos, &raw->flows) {
		struct flow *flow = list_entry(pos, struct flow, link);

		if ((returns || flow->sniffer) && flow_takes(flow, &arrival->frame))
			return flow;
	}
	return NULL;
}

static bool receives(const struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

static void deliver(struct qp *qp, const uint8_t *frame, uint32_t length) REQUIRES(qp->lock)
{
	struct receive_end end = {
		.opcode = IBV_WC_RECV,
		.status = IBV_WC_SUCCESS,
		.byte_len = length,
	};

	if (!receive_take(qp)) {
		cause_report_ratelimited(CAUSE_FRAME_NO_RECEIVE, qp->ib.qp_num, "%u bytes", length);
		return;
	}
	if (length > qp->receive.length) {
		cause_report_ratelimited(CAUSE_FRAME_TOO_LONG, qp->ib.qp_num,
					 "%u bytes, the receive takes %u", length,
					 qp->receive.length);
		return;
	}
	end.cause = receive_scatter(qp, 0, frame, length);
	if (end.cause != CAUSE_NONE) {
		cause_report(end.cause, qp->ib.qp_num, "a frame");
		receive_fault(qp, &end, end.cause);
		return;
	}
	receive_complete(qp, &end);
}

static void accept_frame(struct qp *qp, struct socket_arrival *arrival) REQUIRES(qp->lock)
{
	struct raw *raw = raw_of(qp);
	struct flow *flow = receives(qp) ? find_flow(raw, arrival) : NULL;
	const uint8_t *frame;
	uint32_t length;

	if (!flow)
		return;
	frame = restore_vlan(arrival, raw->buffer, &length);
	if (flow->counters)
		counters_add(flow->counters, length);
	deliver(qp, frame, length);
}

int raw_progress(struct qp *qp)
{
	struct raw *raw = raw_of(qp);
	struct socket_arrival arrival;
	int count = 0;

	if (!raw)
		return 0;
	while (count < FRAMES_AT_ONCE && socket_receive(&raw->socket, raw->buffer, &arrival)) {
		accept_frame(qp, &arrival);
		count++;
	}
	if (raw->wants_room)
		issue(qp);
	return count;
}

static int prepare(struct qp *qp)
{
	return raw_of(qp) ? 0 : ENODEV;
}

static void quiesce(struct qp *qp)
{
	if (raw_of(qp))
		want_room(raw_of(qp), false);
	receive_stop(qp);
}

static void destroy(struct qp *qp)
{
	struct raw *raw = raw_of(qp);

	if (!raw)
		return;
	env.forget(raw->socket.fd);
	socket_close(&raw->socket);
	qp->path_data = NULL;
	free(raw);
}

const struct qp_path raw_path = {
	.connect = prepare,
	.issue = issue,
	.quiesce = quiesce,
	.destroy = destroy,
};
