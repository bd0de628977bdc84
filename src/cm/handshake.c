/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/handshake.h"

#include "cm/qp.h"
#include "cm/session.h"

int handshake_step(const struct id *id, enum ctl_type type)
{
	struct ctl_cm_ask ask = { .header = { .type = type }, .id = id->number };

	return session_ask_plain(&ask, NULL);
}

int handshake_disconnect(const struct id *id)
{
	struct ctl_cm_ask ask = { .header = { .type = CTL_CM_DISCONNECT }, .id = id->number };
	uint32_t no_event = 0;
	int rc = session_ask_plain(&ask, &no_event);

	return rc ? rc : no_event != 0;
}

int handshake_send(const struct id *id, struct ctl_cm_request *t, enum ctl_type type)
{
	struct ctl_cm_reply reply;

	t->header.type = type;
	t->id = id->number;
	return session_ask(&t->header, sizeof(*t), &reply);
}

int handshake_finish(struct id *id)
{
	struct ctl_cm_request refusal = { .reason = HANDSHAKE_CONSUMER };
	int rc = qp_to_rtr(id);

	if (!rc)
		rc = qp_to_rts(id);
	if (!rc)
		rc = handshake_step(id, CTL_CM_READY);
	if (rc) {
		handshake_send(id, &refusal, CTL_CM_REJECT);
		qp_fail(id);
	}
	return rc;
}
