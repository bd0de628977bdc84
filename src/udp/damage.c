/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp/damage.h"

#include <string.h>

#include "base/cause.h"
#include "base/gid.h"

void damage_on_wrong(struct damage *damage, const struct wire_flow *flow)
{
	char text[GID_TEXT_BYTES];

	if (memcmp(damage->remote, flow->remote, WIRE_GID_BYTES)) {
		memcpy(damage->remote, flow->remote, WIRE_GID_BYTES);
		damage->in_a_row = 0;
	}
	if (++damage->in_a_row < DAMAGE_IN_A_ROW)
		return;
	cause_report_ratelimited(CAUSE_ICRC_TRANSLATED, 0, "%s, %u packets in a row",
				 gid_text(flow->remote, text), damage->in_a_row);
}

void damage_forget(struct damage *damage, const struct wire_flow *flow)
{
	if (!memcmp(damage->remote, flow->remote, WIRE_GID_BYTES))
		damage->in_a_row = 0;
}
