/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/handover.h"

#include <errno.h>
#include <string.h>

#include "adapter/adapter.h"
#include "adapter/path.h"
#include "base/cause.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/qp.h"
#include "object/qp_table.h"
#include "tcp/streams.h"
#include "verbs/export.h"

static int refuse_number(uint32_t qpn)
{
	cause_report(CAUSE_ARGUMENT_INVALID, qpn, "it is no QP of this process");
	return EINVAL;
}

static void report_state(uint32_t qpn)
{
	cause_report(CAUSE_QP_STATE, qpn,
		     "a connection needs an RC QP of an RNIC in INIT, without another");
}

/* Changes with each QP of this number, and when one is reset. 0: the QP is not held. */
static uint32_t hold_of(const struct qp *qp) REQUIRES(qp->lock)
{
	if (!path_is_held(qp))
		return 0;
	return atomic_load_explicit(&qp->entry->generation, memory_order_relaxed) | 1u << 31;
}

/* A QP that is held for one connection is not another's. */
static bool may_take(const struct qp *qp, uint32_t hold) REQUIRES(qp->lock)
{
	return streams_may_attach(qp) && hold_of(qp) == hold;
}

VERBS_EXPORT int verbatim_iwarp_check(uint32_t qpn)
{
	UNCANCELLED;
	struct qp *qp;
	int error = 0;

	if (!qp_find_locked(qpn, &qp))
		return refuse_number(qpn);
	if (!qp->context->iwarp || !may_take(qp, 0)) {
		error = EINVAL;
		report_state(qpn);
	}
	qp_unlock(qp);
	return error;
}

VERBS_EXPORT int verbatim_iwarp_here(uint32_t qpn, const uint8_t peer[16],
				     struct same_host_place *place)
{
	UNCANCELLED;
	union ibv_gid gid;

	memcpy(gid.raw, peer, sizeof(gid.raw));
	return path_is_here(qpn, &gid, place) ? 0 : EOPNOTSUPP;
}

VERBS_EXPORT int verbatim_iwarp_meet(const struct same_host_place *peer)
{
	UNCANCELLED;

	return adapter_meet(peer) ? 0 : EHOSTUNREACH;
}

VERBS_EXPORT int verbatim_iwarp_hold(uint32_t qpn, uint32_t *hold)
{
	UNCANCELLED;
	struct qp *qp;
	int error = 0;

	if (!qp_find_locked(qpn, &qp))
		return refuse_number(qpn);
	if (!qp->context->iwarp || !may_take(qp, 0)) {
		error = EINVAL;
		report_state(qpn);
	} else {
		path_hold(qp);
		qp->ib.state = IBV_QPS_RTS;
		*hold = hold_of(qp);
	}
	qp_unlock(qp);
	return error;
}

VERBS_EXPORT void verbatim_iwarp_abandon(uint32_t qpn, uint32_t hold)
{
	UNCANCELLED;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return;
	if (hold && hold_of(qp) == hold)
		qp_enter_error(qp, CAUSE_NONE);
	qp_unlock(qp);
}

/* What an attempt to attach has come to. */
static int settle(struct qp *qp, uint32_t qpn, int error)
{
	if (error == EINVAL)
		report_state(qpn);
	else if (!error)
		qp->ib.state = IBV_QPS_RTS;
	return error;
}

VERBS_EXPORT int verbatim_iwarp_attach(uint32_t qpn, int fd, const struct mpa_agreed *agreed,
				       uint32_t hold, void (*ended)(void *arg), void *arg)
{
	UNCANCELLED;
	struct qp *qp;
	int error = EINVAL;

	if (!qp_find_locked(qpn, &qp))
		return refuse_number(qpn);
	if (qp->context->iwarp && may_take(qp, hold))
		error = -streams_attach(qp, fd, agreed, ended, arg);
	error = settle(qp, qpn, error);
	qp_unlock(qp);
	return error;
}

VERBS_EXPORT int verbatim_iwarp_share(uint32_t qpn, int fd,
				      const struct verbatim_iwarp_shared *shared,
				      void (*ended)(void *arg), void *arg)
{
	UNCANCELLED;
	struct qp *qp;
	int error = EINVAL;

	if (!qp_find_locked(qpn, &qp))
		return refuse_number(qpn);
	if (qp->context->iwarp && may_take(qp, shared->hold))
		error = -path_share(qp, fd, shared, ended, arg);
	error = settle(qp, qpn, error);
	qp_unlock(qp);
	return error;
}

VERBS_EXPORT void verbatim_iwarp_disconnect(uint32_t qpn, const void *arg,
					    enum verbatim_iwarp_end how)
{
	UNCANCELLED;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return;
	if (how == VERBATIM_IWARP_END_LATER)
		streams_disconnect_later(qp, arg);
	else
		streams_disconnect(qp, arg, how == VERBATIM_IWARP_ABORT);
	qp_unlock(qp);
}
