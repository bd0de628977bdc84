/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/gso.h"

#include <netinet/in.h>
#include <string.h>

#include "base/gid.h"
#include "base/cause.h"
#include "base/lock.h"
#include "roce/burst.h"

/* Destinations that need packets one by one; a new one replaces the oldest. */
static struct lock destinations_lock = LOCK_INITIALIZER;
static struct destination {
	uint8_t local[WIRE_GID_BYTES], remote[WIRE_GID_BYTES];
} destinations[GSO_DESTINATIONS] GUARDED_BY(destinations_lock);
static unsigned destination_count GUARDED_BY(destinations_lock);

static bool is_known(const struct wire_flow *flow) REQUIRES(destinations_lock)
{
	for (unsigned i = 0; i < destination_count && i < GSO_DESTINATIONS; i++)
		if (!memcmp(destinations[i].local, flow->local, WIRE_GID_BYTES) &&
		    !memcmp(destinations[i].remote, flow->remote, WIRE_GID_BYTES))
			return true;
	return false;
}

/* True: the destination is new. */
static bool remember(const struct wire_flow *flow)
{
	bool is_new;

	lock_acquire(&destinations_lock);
	is_new = !is_known(flow);
	if (is_new) {
		struct destination *d = &destinations[destination_count++ % GSO_DESTINATIONS];

		memcpy(d->local, flow->local, WIRE_GID_BYTES);
		memcpy(d->remote, flow->remote, WIRE_GID_BYTES);
	}
	lock_release(&destinations_lock);
	return is_new;
}

void gso_start_flow(struct wire_flow *flow)
{
	lock_acquire(&destinations_lock);
	flow->one_by_one = is_known(flow);
	lock_release(&destinations_lock);
}

void gso_start(struct roce_qp *tq)
{
	gso_start_flow(&tq->flow);
	tq->request_gso = tq->response_gso = (struct gso_watch){ 0 };
}

static void strike(struct roce_qp *tq, struct gso_watch *watch)
{
	char text[GID_TEXT_BYTES];

	if (++watch->strikes < GSO_STRIKES)
		return;
	watch->strikes = 0;
	tq->flow.one_by_one = true;
	if (!remember(&tq->flow))
		return;
	cause_report(CAUSE_GSO_DAMAGED, tq->qp->ib.qp_num,
		     "%u times in a row the second packet did not arrive at %s", GSO_STRIKES,
		     gid_text(tq->flow.remote, text));
}

static uint32_t bytes_of(const struct wire_packet *packet)
{
	return (uint32_t)packet->header_bytes + packet->payload_bytes + packet->pad_bytes;
}

static bool begins_with_batch(const struct roce_qp *tq, const struct burst *burst, uint32_t count)
{
	return count > 1 && gso_allowed(tq) &&
	       bytes_of(&burst->packets[1]) <= bytes_of(&burst->packets[0]);
}

static void watch(struct gso_watch *watch, const struct burst *burst)
{
	watch->watching = true;
	watch->first = burst->psn[0];
	watch->second = burst->psn[1];
}

void gso_on_requests(struct roce_qp *tq, const struct burst *burst, uint32_t count)
{
	if (count && psn_equal(burst->psn[0], tq->una_psn) && begins_with_batch(tq, burst, count))
		watch(&tq->request_gso, burst);
}

void gso_on_progress(struct roce_qp *tq)
{
	struct gso_watch *watch = &tq->request_gso;

	if (!watch->watching || !psn_after(tq->una_psn, watch->second))
		return;
	watch->watching = false;
	watch->strikes = 0;
}

void gso_on_loss(struct roce_qp *tq, bool silence)
{
	struct gso_watch *watch = &tq->request_gso;
	bool is_second = psn_equal(tq->una_psn, watch->second);
	/* The first packet may have arrived without AckReq. */
	bool may_be_second = silence && psn_equal(tq->una_psn, watch->first);

	if (watch->watching && (is_second || may_be_second))
		strike(tq, watch);
	watch->watching = false;
}

void gso_on_late(struct roce_qp *tq)
{
	tq->request_gso.strikes = 0;
}

/*
 * At most max_dest_rd_atomic READs and atomics may be outstanding. So many new ones show that the
 * watched response has arrived as a whole.
 */
void gso_on_responses(struct roce_qp *tq, const struct burst *burst, uint32_t count)
{
	struct gso_watch *w = &tq->response_gso;
	uint32_t limit = depth_of(tq->qp->attr.max_dest_rd_atomic);

	if (w->watching && tq->responses.tail - w->responses <= limit)
		return;
	if (w->watching)
		w->strikes = 0;
	w->watching = false;
	if (!begins_with_batch(tq, burst, count))
		return;
	watch(w, burst);
	w->responses = tq->responses.tail;
}

void gso_on_repeated_read(struct roce_qp *tq, psn_t psn)
{
	struct gso_watch *watch = &tq->response_gso;

	if (!watch->watching)
		return;
	watch->watching = false;
	if (psn_equal(psn, watch->second))
		strike(tq, watch);
	else if (psn_after(psn, watch->second))
		watch->strikes = 0;
}

void gso_reset_after_fork(void)
{
	lock_acquire_in_child(&destinations_lock);
	destination_count = 0;
	lock_release(&destinations_lock);
}
