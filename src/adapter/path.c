/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cause.h"
#include "base/gid.h"
#include "iwarp/iwarp.h"
#include "netdev/device.h"
#include "object/context.h"
#include "object/limits.h"
#include "object/qp_table.h"
#include "roce/roce.h"
#include "shm/link.h"
#include "shm/progress.h"
#include "shm/shm.h"
#include "tcp/control.h"
#include "tcp/streams.h"
#include "tcp/tcp.h"

/*
 * iWARP has none of these attributes. A request without a receive fails at once, as there is no RNR
 * (RFC 5040 7.1); a QP that does not answer is known by the socket.
 */
#define TIMEOUT	      14
#define RETRY_COUNT   7
#define RNR_RETRY     0
#define MIN_RNR_TIMER 12

static bool forced;
static struct link *(*find_shared)(uint32_t slot, bool *asked);
static const struct arena_header *own_arena;
static uint64_t own_cookie;

bool path_is_forced(void)
{
	return forced;
}

int path_is_local(const union ibv_gid *gid)
{
	int is_local = forced ? 0 : device_gid_is_local(gid);

	if (is_local < 0)
		cause_report_ratelimited(CAUSE_MEMORY_EXHAUSTED, 0,
					 "the kernel was not asked for an address: %s",
					 strerror(-is_local));
	return is_local;
}

bool path_shares(void)
{
	return find_shared && !forced;
}

/* ADDRESS: the interface before and after the prefix, so that the two are of one address. */
static bool is_at(const struct arena_address *at, const uint64_t halves[2])
{
	return atomic_load_explicit(&at->interface, memory_order_acquire) == halves[1] &&
	       atomic_load_explicit(&at->prefix, memory_order_acquire) == halves[0] &&
	       atomic_load_explicit(&at->interface, memory_order_relaxed) == halves[1];
}

static bool has_address(const struct arena_header *header, const union ibv_gid *gid)
{
	uint64_t halves[2];
	uint8_t wanted[16];

	gid_canonical(wanted, gid->raw);
	memcpy(halves, wanted, sizeof(halves));
	for (int i = 0; i < ARENA_ADDRESSES; i++)
		if (is_at(&header->addresses[i], halves))
			return !gid_is_zero(wanted);
	return false;
}

bool path_is_shared(const union ibv_gid *own, const union ibv_gid *gid, uint32_t qpn)
{
	struct link *link;
	bool asked, has;

	if (!path_shares() || !has_address(own_arena, own))
		return false;
	link = find_shared(qpn >> ARENA_QP_BITS, &asked);
	has = link && has_address(link->peer, gid);
	if (link)
		link_put(link);
	return has;
}

bool path_peer_may_be_local(const struct qp *qp)
{
	return atomic_load_explicit(&qp->peer_shares, memory_order_relaxed) > 0 ||
	       path_may_be_local(&qp->attr.ah_attr.grh.dgid);
}

static int choose(struct qp *qp, const struct qp_path **path)
{
	const union ibv_gid *peer = &qp->attr.ah_attr.grh.dgid;
	int is_local;

	/* iWARP: the connection brings the path (tcp/streams.h). */
	*path = qp->path;
	if (qp->path == &qp_path_orphan || qp->context->iwarp || qp->type == IBV_QPT_RAW_PACKET)
		return 0;
	*path = &shm_path;
	if (qp->type == IBV_QPT_UD)
		return 0;
	is_local = path_is_local(peer);
	if (!is_local)
		is_local = atomic_load_explicit(&qp->peer_shares, memory_order_relaxed);
	if (is_local < 0)
		return -is_local;
	qp->entry->path = is_local ? ARENA_PATH_LOCAL : ARENA_PATH_WIRE;
	memcpy(qp->entry->peer, peer->raw, sizeof(qp->entry->peer));
	*path = is_local ? &shm_path : &roce_path;
	return 0;
}

void path_init(struct link *(*find_link)(uint32_t slot, bool *asked),
	       const struct arena_header *own)
{
	const char *path = secure_getenv("VERBATIM_PATH");

	forced = path && !strcmp(path, "wire");
	find_shared = find_link;
	own_arena = own;
	qp_set_path_choice(choose);
}

/*
 * ------------------------------------------------------------------------------------------
 * RNICs whose peers are on this host.
 */

/* Without locks. */
static void catch_up(uint32_t qpn)
{
	struct qp *qp;

	if (qp_find_locked(qpn, &qp))
		progress_catch_up_with(qp);
}

int path_init_rnic(uint64_t cookie)
{
	static const struct shm_rnic_env path = {
		.on_quiesce = tcp_control_on_quiesce,
		.close = tcp_control_disconnect,
	};
	static const struct tcp_control_env socket = {
		.on_ready = shm_rnic_open,
		.is_served = shm_rnic_is_served,
		.catch_up = catch_up,
	};

	own_cookie = cookie;
	shm_rnic_init(&path);
	return tcp_control_init(&socket);
}

bool path_is_here(uint32_t qpn, const union ibv_gid *peer, struct same_host_place *place)
{
	*place = (struct same_host_place){ .qpn = qpn, .cookie = own_cookie };
	return path_is_local(peer) == 1;
}

void path_hold(struct qp *qp)
{
	iwarp_hold(qp);
}

bool path_is_held(const struct qp *qp)
{
	return iwarp_is_held(qp);
}

static uint8_t depth(uint16_t wanted)
{
	return (uint8_t)(wanted < LIMIT_QP_RD_ATOM ? wanted : LIMIT_QP_RD_ATOM);
}

static void set_attributes(struct qp *qp, int fd, const struct verbatim_iwarp_shared *shared)
	REQUIRES(qp->lock)
{
	struct ibv_qp_attr *attr = &qp->attr;

	attr->qp_access_flags = STREAMS_RIGHTS;
	attr->dest_qp_num = shared->peer.qpn;
	attr->ah_attr.is_global = 1;
	tcp_peer(fd, attr->ah_attr.grh.dgid.raw);
	attr->sq_psn = attr->rq_psn = 0;
	attr->max_rd_atomic = depth(shared->agreed->ord);
	attr->max_dest_rd_atomic = depth(shared->agreed->ird);
	attr->timeout = TIMEOUT;
	attr->retry_cnt = RETRY_COUNT;
	attr->rnr_retry = RNR_RETRY;
	attr->min_rnr_timer = MIN_RNR_TIMER;
	qp->entry->path = ARENA_PATH_LOCAL;
	memcpy(qp->entry->peer, attr->ah_attr.grh.dgid.raw, sizeof(qp->entry->peer));
}

int path_share(struct qp *qp, int fd, const struct verbatim_iwarp_shared *shared,
	       void (*ended)(void *arg), void *arg)
{
	bool initiator = shared->agreed->initiator;
	int rc = tcp_control_attach(qp, fd, shared->peer.cookie, ended, arg);

	if (rc)
		return rc;
	set_attributes(qp, fd, shared);
	rc = -shm_rnic_connect(qp, initiator);
	/* The initiator's QP names this one by now, or it is not this connection's. */
	if (!rc && !initiator && !shm_rnic_is_served(qp, shared->peer.cookie)) {
		iwarp_hold(qp);
		rc = -ECONNREFUSED;
	}
	if (rc) {
		tcp_control_detach(qp);
		return rc;
	}
	qp->failure = CAUSE_NONE;
	qp->flush_reported = false;
	qp_set_state(qp, IBV_QPS_RTS);
	tcp_control_send(qp, shared->first, shared->first_bytes);
	tcp_control_issue_later(qp);
	return 0;
}
