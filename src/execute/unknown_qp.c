/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/unknown_qp.h"

#include "base/arena.h"
#include "base/cause.h"
#include "base/counter.h"
#include "memory/memory.h"
#include "object/qp_table.h"

void unknown_qp_count(uint32_t qpn)
{
	if (qp_was_destroyed(qpn)) {
		counter_add(COUNTER_QP_DESTROYED);
		return;
	}
	counter_add(COUNTER_NO_QP);
	if (qpn >> ARENA_QP_BITS == memory_slot())
		return;
	counter_add(COUNTER_MISDELIVERED);
	cause_report_ratelimited(CAUSE_PACKET_MISDELIVERED, 0,
				 "for QP 0x%06x, which is of slot %u; mine is %u", qpn,
				 qpn >> ARENA_QP_BITS, memory_slot());
}
