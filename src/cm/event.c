/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes rdma_cm_events of verbatimd's events, and moves the QP accordingly.
 *
 * Any thread. Fetching blocks as the channel's descriptor says.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cm/channel.h"
#include "cm/export.h"
#include "cm/handshake.h"
#include "cm/id.h"
#include "cm/iwcm.h"
#include "cm/membership.h"
#include "cm/qp.h"
#include "cm/qp_attr.h"
#include "cm/refusal.h"
#include "cm/session.h"

_Static_assert((int)CTL_CM_CONNECT_REQUEST == (int)RDMA_CM_EVENT_CONNECT_REQUEST &&
		       (int)CTL_CM_DISCONNECTED == (int)RDMA_CM_EVENT_DISCONNECTED &&
		       (int)CTL_CM_TIMEWAIT_EXIT == (int)RDMA_CM_EVENT_TIMEWAIT_EXIT,
	       "kinds of events are those of the ABI");

#define DELIVERED_PRIVATE_MAX 256
_Static_assert(CTL_CM_PRIVATE_BYTES <= DELIVERED_PRIVATE_MAX &&
		       IWCM_PRIVATE_MAX <= DELIVERED_PRIVATE_MAX,
	       "room for private data");

/* The program's event, with room for its private data. */
struct delivered {
	struct rdma_cm_event base; /* first */
	struct id *held;	   /* waits for the acknowledgement; of a request: the listener */
	uint8_t private_data[DELIVERED_PRIVATE_MAX];
};

static void copy_private_data(struct delivered *t, const struct ctl_cm_end *end)
{
	memcpy(t->private_data, end->private_data, sizeof(end->private_data));
}

static void fill_conn(struct delivered *t, const struct ctl_cm_end *end)
{
	struct rdma_conn_param *conn = &t->base.param.conn;

	copy_private_data(t, end);
	conn->private_data = end->private_bytes ? t->private_data : NULL;
	conn->private_data_len = (uint8_t)end->private_bytes;
	conn->responder_resources = end->responder_resources;
	conn->initiator_depth = end->initiator_depth;
	conn->flow_control = end->flow_control;
	conn->retry_count = end->retry_count;
	conn->rnr_retry_count = end->rnr_retry_count;
	conn->srq = end->has_srq;
	conn->qp_num = end->qpn;
}

static void fill_ud(struct delivered *t, struct id *id, const struct ctl_cm_end *end)
{
	struct rdma_ud_param *ud = &t->base.param.ud;

	copy_private_data(t, end);
	ud->private_data = end->private_bytes ? t->private_data : NULL;
	ud->private_data_len = (uint8_t)end->private_bytes;
	ud->qp_num = end->qpn;
	ud->qkey = end->qkey;
	qp_attr_address(id, &id->remote, &ud->ah_attr);
}

static void fill_param(struct delivered *t, struct id *id, const struct ctl_cm_end *end)
{
	if (id->base.qp_type == IBV_QPT_UD)
		fill_ud(t, id, end);
	else
		fill_conn(t, end);
}

/* Keeps the peer's parameters, for the moves of the QP. */
static void keep_peer(struct id *id, const struct ctl_cm_end *end)
{
	uint8_t path_mtu = id->peer.path_mtu, ack_timeout = id->peer.ack_timeout;

	id->peer = *end;
	id->has_peer = true;
	/* A REP has neither: the REQ's count. */
	if (!end->path_mtu) {
		id->peer.path_mtu = path_mtu;
		id->peer.ack_timeout = ack_timeout;
	}
}

/* As the kernel does; a program may look at it. Without memory it has no path. */
static void show_path(struct id *child)
{
	if (child->base.qp_type != IBV_QPT_UD)
		child->base.route.num_paths = !qp_attr_make_path(child);
}

/* False: there is no event for the program, and the request is refused. */
static bool on_request(struct delivered *t, struct id *listener, struct id *child,
		       const struct ctl_cm_event *event)
{
	struct ctl_cm_ask ask = { .header = { .type = CTL_CM_DESTROY_ID }, .id = event->id };

	if (!child) {
		session_ask_plain(&ask, NULL);
		return false;
	}
	keep_peer(child, &event->end);
	show_path(child);
	child->responder_resources = event->end.responder_resources;
	child->initiator_depth = event->end.initiator_depth;
	child->retry_count = event->end.retry_count;
	child->rnr_retry_count = event->end.rnr_retry_count;
	t->base.id = &child->base;
	t->base.listen_id = &listener->base;
	fill_param(t, child, &event->end);
	if (listener->is_sync && id_migrate(child, NULL)) {
		id_end(child);
		id_free(child);
		return false;
	}
	return true;
}

/* The library sends the RTU if the identifier has a QP; else the program does (rdma_establish). */
static void on_response(struct delivered *t, struct id *id, const struct ctl_cm_event *event)
{
	int rc;

	keep_peer(id, &event->end);
	id->rnr_retry_count = event->end.rnr_retry_count;
	/* The REP grants these; they may be less than the REQ asked for. */
	id->responder_resources = event->end.responder_resources;
	id->initiator_depth = event->end.initiator_depth;
	fill_conn(t, &event->end);
	if (!id->base.qp)
		return;
	rc = handshake_finish(id);
	t->base.event = rc ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	t->base.status = rc;
	id->failed = rc != 0;
}

/* An event of rdma_write_cm_event or rdma_resolve_addrinfo: newer headers name its type. */
static bool is_written(uint32_t kind)
{
	return kind >= CTL_CM_ADDRINFO_RESOLVED;
}

/* False: the program gets no event. */
static bool make(struct delivered *t, struct id *id, const struct ctl_cm_event *event)
{
	t->base.id = &id->base;
	t->base.event = (enum rdma_cm_event_type)event->kind;
	t->base.status = event->status;
	if (is_written(event->kind)) {
		/* param.arg of later headers */
		memcpy(&t->base.param, &event->cookie, sizeof(event->cookie));
		return true;
	}
	refusal_report_event(event, &id->remote);
	switch (t->base.event) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		on_response(t, id, event);
		return true;
	case RDMA_CM_EVENT_REJECTED:
		fill_conn(t, &event->end);
		qp_fail(id);
		return !id->failed;
	case RDMA_CM_EVENT_DISCONNECTED:
		fill_conn(t, &event->end);
		return !id->failed;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return true;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return membership_on_event(id, event->cookie, &t->base);
	default:
		fill_param(t, id, &event->end);
		return true;
	}
}

/*
 * ------------------------------------------------------------------------------------------
 * iWARP: what librdmacm has itself. The QP is where it has to be already.
 */

static void fill_iwarp(struct delivered *t, const struct iwcm_event *event)
{
	struct rdma_conn_param *conn = &t->base.param.conn;

	memcpy(t->private_data, event->private_data, sizeof(event->private_data));
	conn->private_data = event->private_bytes ? t->private_data : NULL;
	conn->private_data_len = event->private_bytes;
	conn->responder_resources = event->responder_resources;
	conn->initiator_depth = event->initiator_depth;
}

/* False: there is no event for the program, and the connection is closed. */
static bool on_iwarp_request(struct delivered *t, struct id *listener, struct id *child,
			     const struct iwcm_event *event)
{
	if (!child)
		return false;
	child->responder_resources = event->responder_resources;
	child->initiator_depth = event->initiator_depth;
	t->base.id = &child->base;
	t->base.listen_id = &listener->base;
	fill_iwarp(t, event);
	if (listener->is_sync && id_migrate(child, NULL)) {
		id_end(child);
		id_free(child);
		return false;
	}
	return true;
}

static void make_iwarp(struct delivered *t, struct id *id, const struct iwcm_event *event)
{
	struct ctl_cm_event told = { .kind = event->kind, .status = event->status };

	t->base.id = &id->base;
	t->base.status = event->status;
	fill_iwarp(t, event);
	if (event->kind == CTL_CM_ESTABLISHED) {
		id->has_peer = true;
		id->responder_resources = event->responder_resources;
		id->initiator_depth = event->initiator_depth;
	} else if (event->kind == CTL_CM_REJECTED || event->kind == CTL_CM_UNREACHABLE) {
		refusal_report_event(&told, &id->remote);
		qp_fail(id);
	}
}

struct taking {
	struct iwcm_event iwarp; /* of CTL_CM_IWARP */
	bool is_iwarp;
	struct ctl_cm_event event;
	struct id *held;  /* NULL: its identifier has ended */
	struct id *child; /* of a request; NULL: out of memory */
};

/*
 * As when a kernel's device is removed: each identifier is dead, and its program gets
 * DEVICE_REMOVAL once. Within a delivery. 0, or -ENODEV: all had it.
 */
static int take_removal(struct channel *ch, struct taking *taking)
{
	taking->held = id_next_lost(ch);
	if (!taking->held) {
		channel_lose(ch);
		return -ENODEV;
	}
	taking->event = (struct ctl_cm_event){
		.kind = CTL_CM_DEVICE_REMOVAL,
		.id = taking->held->number,
	};
	return 0;
}

/* The event itself, for its ticket. A child is made now. Within a delivery. */
static void take_iwarp(struct taking *taking)
{
	struct iwcm_event *event = &taking->iwarp;

	if (!iwcm_next_event(taking->held, event)) {
		taking->held = NULL;
		return;
	}
	taking->is_iwarp = true;
	taking->event.kind = event->kind;
	if (event->asked && id_adopt_iwarp(taking->held, event, &taking->child)) {
		taking->child = NULL;
		iwcm_drop(event->asked);
	}
}

static int take_event(struct channel *ch, void *arg)
{
	struct taking *taking = arg;
	struct ctl_cm_event *event = &taking->event;
	bool is_request = false;
	int rc, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	id_delivery_begin();
	rc = atomic_load(&ch->is_lost) ? -ENODEV : session_next_event(ch->number, event);
	if (rc && channel_is_gone(ch, rc))
		rc = take_removal(ch, taking);
	else if (!rc) {
		is_request = event->kind == CTL_CM_CONNECT_REQUEST;
		taking->held = id_find(is_request ? event->listener : event->id);
	}
	if (taking->held && event->kind == CTL_CM_IWARP)
		take_iwarp(taking);
	if (taking->held) {
		id_hold_event(taking->held);
		if (is_request && id_adopt(taking->held, event, &taking->child))
			taking->child = NULL;
	}
	id_delivery_end();
	pthread_setcancelstate(cancel, NULL);
	return rc;
}

/* False: the program gets no event. */
static bool tell(struct delivered *t, const struct taking *taking)
{
	bool is_request = taking->event.kind == CTL_CM_CONNECT_REQUEST;

	if (is_request && taking->is_iwarp)
		return on_iwarp_request(t, taking->held, taking->child, &taking->iwarp);
	if (is_request)
		return on_request(t, taking->held, taking->child, &taking->event);
	if (!taking->is_iwarp)
		return make(t, taking->held, &taking->event);
	make_iwarp(t, taking->held, &taking->iwarp);
	return true;
}

/* 1: *out goes to the program; 0: the event was handled here; -errno. */
static int fetch(struct channel *ch, struct rdma_cm_event **out)
{
	struct taking taking = { .held = NULL };
	const struct ctl_cm_event *event = &taking.event;
	struct delivered *t = calloc(1, sizeof(*t));
	bool is_told;
	int rc;

	if (!t)
		return -ENOMEM;
	pthread_cleanup_push(free, t);
	rc = channel_wait(ch, take_event, &taking);
	pthread_cleanup_pop(rc || !taking.held);
	if (rc || !taking.held)
		return rc;
	t->held = taking.held;
	t->base.event = (enum rdma_cm_event_type)event->kind;
	is_told = tell(t, &taking);
	if (!is_told) {
		id_ack_event(taking.held);
		free(t);
		return 0;
	}
	*out = &t->base;
	return 1;
}

CM_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct channel *ch = channel_of(channel);
	int rc;

	if (!event)
		return answer(-EINVAL);
	if (!channel_enter(ch))
		return answer(channel_wait_ended(ch));
	pthread_cleanup_push(channel_leave, ch);
	do
		rc = fetch(ch, event);
	while (rc == 0);
	pthread_cleanup_pop(1);
	return answer(rc < 0 ? rc : 0);
}

CM_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct delivered *t = (struct delivered *)event;

	if (!event)
		return answer(-EINVAL);
	id_ack_event(t->held);
	free(t);
	return 0;
}

CM_EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		[RDMA_CM_EVENT_ADDR_RESOLVED] = "RDMA_CM_EVENT_ADDR_RESOLVED",
		[RDMA_CM_EVENT_ADDR_ERROR] = "RDMA_CM_EVENT_ADDR_ERROR",
		[RDMA_CM_EVENT_ROUTE_RESOLVED] = "RDMA_CM_EVENT_ROUTE_RESOLVED",
		[RDMA_CM_EVENT_ROUTE_ERROR] = "RDMA_CM_EVENT_ROUTE_ERROR",
		[RDMA_CM_EVENT_CONNECT_REQUEST] = "RDMA_CM_EVENT_CONNECT_REQUEST",
		[RDMA_CM_EVENT_CONNECT_RESPONSE] = "RDMA_CM_EVENT_CONNECT_RESPONSE",
		[RDMA_CM_EVENT_CONNECT_ERROR] = "RDMA_CM_EVENT_CONNECT_ERROR",
		[RDMA_CM_EVENT_UNREACHABLE] = "RDMA_CM_EVENT_UNREACHABLE",
		[RDMA_CM_EVENT_REJECTED] = "RDMA_CM_EVENT_REJECTED",
		[RDMA_CM_EVENT_ESTABLISHED] = "RDMA_CM_EVENT_ESTABLISHED",
		[RDMA_CM_EVENT_DISCONNECTED] = "RDMA_CM_EVENT_DISCONNECTED",
		[RDMA_CM_EVENT_DEVICE_REMOVAL] = "RDMA_CM_EVENT_DEVICE_REMOVAL",
		[RDMA_CM_EVENT_MULTICAST_JOIN] = "RDMA_CM_EVENT_MULTICAST_JOIN",
		[RDMA_CM_EVENT_MULTICAST_ERROR] = "RDMA_CM_EVENT_MULTICAST_ERROR",
		[RDMA_CM_EVENT_ADDR_CHANGE] = "RDMA_CM_EVENT_ADDR_CHANGE",
		[RDMA_CM_EVENT_TIMEWAIT_EXIT] = "RDMA_CM_EVENT_TIMEWAIT_EXIT",
		[CTL_CM_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		[CTL_CM_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
		[CTL_CM_USER] = "RDMA_CM_EVENT_USER",
		[CTL_CM_INTERNAL] = "RDMA_CM_EVENT_INTERNAL",
	};

	return (unsigned)event < sizeof(names) / sizeof(*names) ? names[event] : "UNKNOWN EVENT";
}
