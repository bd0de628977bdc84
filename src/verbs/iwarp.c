/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/handover.h"

#include <errno.h>

#include "adapter/adapter.h"
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

VERBS_EXPORT int verbatim_iwarp_check(uint32_t qpn)
{
	UNCANCELLED;
	struct qp *qp;
	int error = 0;

	if (!qp_find_locked(qpn, &qp))
		return refuse_number(qpn);
	if (!qp->context->iwarp || !streams_may_attach(qp)) {
		error = EINVAL;
		report_state(qpn);
	}
	qp_unlock(qp);
	return error;
}

VERBS_EXPORT int verbatim_iwarp_attach(uint32_t qpn, int fd, const struct mpa_agreed *agreed,
				       void (*ended)(void *arg), void *arg)
{
	UNCANCELLED;
	struct qp *qp;
	int error = EINVAL;

	if (!qp_find_locked(qpn, &qp))
		return refuse_number(qpn);
	if (qp->context->iwarp)
		error = -streams_attach(qp, fd, agreed, ended, arg);
	if (error == EINVAL)
		report_state(qpn);
	else if (!error)
		qp->ib.state = IBV_QPS_RTS;
	qp_unlock(qp);
	return error;
}

VERBS_EXPORT void verbatim_iwarp_disconnect(uint32_t qpn, const void *arg, bool abort)
{
	UNCANCELLED;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return;
	streams_disconnect(qp, arg, abort);
	qp_unlock(qp);
}
