#include "udp/damage.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/cause.h"
#include "udp/udp_address.h"

void damage_on_wrong(struct damage *damage, const struct wire_flow *flow)
{
	bool is_v4 = udp_address_is_v4(flow->remote);
	char text[INET6_ADDRSTRLEN] = "";

	if (memcmp(damage->remote, flow->remote, WIRE_GID_BYTES)) {
		memcpy(damage->remote, flow->remote, WIRE_GID_BYTES);
		damage->in_a_row = 0;
	}
	if (++damage->in_a_row < DAMAGE_IN_A_ROW)
		return;
	inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? flow->remote + 12 : flow->remote, text,
		  sizeof(text));
	cause_report_ratelimited(CAUSE_ICRC_TRANSLATED, 0, "%s, %u packets in a row", text,
				 damage->in_a_row);
}

void damage_forget(struct damage *damage, const struct wire_flow *flow)
{
	if (!memcmp(damage->remote, flow->remote, WIRE_GID_BYTES))
		damage->in_a_row = 0;
}
