/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/response.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/counter.h"
#include "execute/copies.h"
#include "memory/memory.h"
#include "roce/burst.h"
#include "roce/congestion.h"
#include "roce/flush_list.h"
#include "roce/gso.h"
#include "roce/roce_env.h"

#define RESULTS_MIN 16		   /* of atomics; a power of 2 */
#define COPIES_NS   10000000000ull /* so long nobody has asked for a copy: no more are made */

static struct response *add(struct responses *responses)
{
	return response_at(responses, responses->tail++);
}

static bool is_empty(const struct responses *responses)
{
	return responses->head == responses->tail;
}

static int widen(struct responses *responses, uint32_t slots, uint32_t qpn)
{
	const struct depth_ring ring = { responses->entries, responses->slots, responses->head,
					 responses->tail, sizeof(*responses->entries) };
	struct response *entries;

	if (slots <= responses->slots)
		return 0;
	entries = depth_widen(&ring, slots, qpn);
	if (!entries)
		return ENOMEM;
	free(responses->entries);
	responses->entries = entries;
	responses->slots = slots;
	return 0;
}

/* All slots of the old ring may have a value that a duplicate asks for. */
static int widen_saved(struct roce_qp *tq, uint32_t slots)
{
	const struct depth_ring ring = { tq->saved, tq->saved_slots,
					 tq->saved_next - tq->saved_slots, tq->saved_next,
					 sizeof(*tq->saved) };
	struct saved_atomic *saved;

	if (slots <= tq->saved_slots)
		return 0;
	saved = depth_widen(&ring, slots, tq->qp->ib.qp_num);
	if (!saved)
		return ENOMEM;
	free(tq->saved);
	tq->saved = saved;
	tq->saved_slots = slots;
	return 0;
}

int response_make_room(struct roce_qp *tq)
{
	const struct qp *qp = tq->qp;
	uint32_t slots = depth_slots(depth_of(qp->attr.max_dest_rd_atomic));
	int error;

	if (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_XRC_RECV)
		return 0;
	error = widen(&tq->responses, slots, qp->ib.qp_num);
	if (!error)
		error = widen(&tq->replays, slots, qp->ib.qp_num);
	/* Results are also kept for a requester that has more on the way than it may. */
	if (!error)
		error = widen_saved(tq, slots > RESULTS_MIN ? slots : RESULTS_MIN);
	return error;
}

void response_fini(struct roce_qp *tq)
{
	free(tq->responses.entries);
	free(tq->replays.entries);
	free(tq->saved);
}

bool response_has_room(const struct responses *responses)
{
	return responses->tail - responses->head < responses->slots;
}

/* The request is true, and asks for the original: there are copies from now on. */
static void start_copies(struct roce_qp *tq)
{
	copies_start(&tq->copies, tq->mtu);
	tq->copies_ns = roce_env.now();
}

/* Whether the response to a request that was executed for the first time is marked. */
static bool is_original(struct roce_qp *tq, const struct packet *request)
{
	if (request->original)
		start_copies(tq);
	else if (tq->copies && roce_env.now() - tq->copies_ns > COPIES_NS)
		copies_fini(&tq->copies);
	return request->original && tq->copies;
}

void response_add_read(struct responses *responses, struct roce_qp *tq,
		       const struct packet *request, uint32_t pd, uint32_t msn)
{
	bool original = responses == &tq->responses && is_original(tq, request);

	*add(responses) = (struct response){
		.first = true,
		.original = original,
		.psn = request->psn,
		.end = psn_add(request->psn, packets_of(request->length, tq->mtu)),
		.msn = msn,
		.pd = pd,
		.rkey = request->rkey,
		.va = request->va,
		.left = request->length,
	};
}

bool response_any_is_empty(const struct responses *responses)
{
	for (uint32_t i = responses->head; i != responses->tail; i++) {
		const struct response *r = &responses->entries[i & (responses->slots - 1)];

		if (!r->atomic && !r->left)
			return true;
	}
	return false;
}

/* That of an empty or atomic duplicate is as it was in any case; it does not start copies. */
static bool is_marked(struct responses *responses, struct roce_qp *tq, const struct packet *request)
{
	return responses == &tq->responses ? is_original(tq, request)
					   : request->original && tq->copies;
}

void response_add_empty(struct responses *responses, struct roce_qp *tq,
			const struct packet *request, uint32_t msn)
{
	bool original = is_marked(responses, tq, request);

	*add(responses) = (struct response){
		.first = true,
		.original = original,
		.psn = request->psn,
		.end = psn_add(request->psn, 1),
		.msn = msn,
	};
}

void response_add_atomic(struct responses *responses, struct roce_qp *tq,
			 const struct packet *request, uint64_t value, uint32_t msn)
{
	bool original = is_marked(responses, tq, request);

	*add(responses) = (struct response){
		.atomic = true,
		.first = true,
		.original = original,
		.psn = request->psn,
		.end = psn_add(request->psn, 1),
		.msn = msn,
		.value = value,
	};
}

/* A response with one of these PSNs is still to be sent. */
static bool will_come(const struct responses *responses, psn_t psn, psn_t end)
{
	for (uint32_t i = responses->head; i != responses->tail; i++) {
		const struct response *response = response_at(responses, i);

		if (psn_before(psn, response->end) && psn_after(end, response->psn))
			return true;
	}
	return false;
}

/* The requester went back, and waits for no copies any more. */
static void drop_copied(struct responses *replays)
{
	uint32_t tail = replays->head;

	for (uint32_t i = replays->head; i != replays->tail; i++)
		if (!response_at(replays, i)->copied)
			*response_at(replays, tail++) = *response_at(replays, i);
	replays->tail = tail;
}

/*
 * Whether to send the response from `psn` on again. Duplicates have rising PSNs, as the requests
 * had. A lower PSN shows that the requester went back once more: it will repeat later requests, so
 * their responses are dropped. Not so if it asks for the original, and there are copies, as then
 * only that is missing.
 */
static bool is_to_be_repeated(struct roce_qp *tq, const struct packet *request)
{
	struct responses *replays = &tq->replays;
	bool original = request->original && tq->copies;
	psn_t psn = request->psn, end = psn_add(psn, 1);

	if (will_come(&tq->responses, psn, end))
		return false;
	if (!original)
		drop_copied(replays);
	if (will_come(replays, psn, end))
		return false;
	if (!original && !is_empty(replays) &&
	    psn_before(psn, response_at(replays, replays->tail - 1)->psn))
		replays->head = replays->tail;
	return response_has_room(replays);
}

/*
 * A duplicate, up to `end`, of the response that is being sent includes the rest of that response.
 * The rest must not stay owed: the requester may send the next READ as soon as it has the
 * duplicate, and would find no room (check_resources).
 */
static void drop_begun(struct responses *fresh, psn_t psn, psn_t end)
{
	const struct response *begun = response_at(fresh, fresh->head);

	if (!is_empty(fresh) && !begun->first && psn_before(psn, begun->psn) &&
	    !psn_before(end, begun->end))
		fresh->head++;
}

/* The part of a READ that is asked for, or owed. */
static struct copied_read part_of(psn_t psn, psn_t end, uint32_t rkey, uint64_t va, uint32_t bytes)
{
	return (struct copied_read){ psn, end, rkey, bytes, va };
}

/* The first response that is still to be sent, and has one of these PSNs; NULL: none. */
static struct response *find_owed(const struct responses *fresh, psn_t psn, psn_t end)
{
	for (uint32_t i = fresh->head; i != fresh->tail; i++) {
		struct response *response = response_at(fresh, i);

		if (psn_after(response->end, psn))
			return psn_before(response->psn, end) ? response : NULL;
	}
	return NULL;
}

/*
 * Asked for as the original: sends the copy, in front of what is being sent, which goes on. False:
 * there is none. What is still to be sent will come as the original: if that is a part, it says so.
 */
static bool repeat_copied(struct roce_qp *tq, const struct packet *request, psn_t end, uint32_t pd)
{
	struct response *owed = find_owed(&tq->responses, request->psn, end), *copy;
	struct packet front = *request;
	struct copied_read part;

	if (owed && !psn_after(owed->psn, request->psn))
		return true;
	if (owed)
		front.length = (uint32_t)psn_diff(owed->psn, request->psn) * tq->mtu;
	part = part_of(front.psn, owed ? owed->psn : end, front.rkey, front.va, front.length);
	if (will_come(&tq->replays, part.psn, part.end))
		return true;
	if (!copies_have(tq->copies, &part))
		return false;
	if (!response_has_room(&tq->replays))
		return true;
	if (owed)
		owed->original |= psn_equal(owed->end, end);
	response_add_read(&tq->replays, tq, &front, pd, 0);
	copy = response_at(&tq->replays, tq->replays.tail - 1);
	copy->original = copy->copied = true;
	return true;
}

void response_repeat_read(struct roce_qp *tq, const struct packet *request, uint32_t pd)
{
	uint32_t packets = packets_of(request->length, tq->mtu), owed = tq->replays.tail;
	psn_t end = psn_add(request->psn, packets);
	struct packet anew = *request;

	/* not a duplicate: the responder has not executed it */
	if (request->length > LIMIT_MESSAGE || psn_after(end, tq->expected_psn) ||
	    !(tq->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ))
		return;
	if (request->original)
		start_copies(tq);
	if (request->original && repeat_copied(tq, request, end, pd)) {
		if (tq->replays.tail == owed)
			return;
	} else {
		anew.original = false;
		if (!is_to_be_repeated(tq, &anew))
			return;
		/* executed anew: what was copied is older than that, and what will come is newer */
		copies_drop(tq->copies, request->psn);
		drop_begun(&tq->responses, request->psn, end);
		response_add_read(&tq->replays, tq, &anew, pd, 0);
	}
	/* the window of a requester that asks for an original bounds its responses, too */
	if (!request->original)
		congestion_on_repeated_read(tq, roce_env.now());
	gso_on_repeated_read(tq, request->psn);
}

void response_repeat_empty(struct roce_qp *tq, const struct packet *request)
{
	if (!is_to_be_repeated(tq, request))
		return;
	response_add_empty(&tq->replays, tq, request, 0);
}

void response_repeat_atomic(struct roce_qp *tq, const struct packet *request)
{
	/* the newest first: the PSN of an old one may have been reused */
	for (uint32_t i = 1; i <= tq->saved_slots; i++) {
		const struct saved_atomic *saved = saved_at(tq, tq->saved_next - i);

		if (!saved->valid || !psn_equal(saved->psn, request->psn))
			continue;
		if (request->original)
			start_copies(tq);
		if (is_to_be_repeated(tq, request))
			response_add_atomic(&tq->replays, tq, request, saved->value, 0);
		return;
	}
}

void response_drop_all(struct roce_qp *tq)
{
	tq->responses.head = tq->responses.tail = 0;
	tq->replays.head = tq->replays.tail = 0;
}

void response_nak(struct roce_qp *tq, const struct nak *nak)
{
	if (tq->nak.final)
		return;
	qp_count(tq->qp, COUNTER_NAKS_SENT);
	if ((nak->syndrome & PACKET_SYNDROME_MASK) == PACKET_SYNDROME_RNR)
		qp_count(tq->qp, COUNTER_SEND_RNR_ERR);
	tq->nak = *nak;
	tq->ack_owed = false;
	flush_list_add(tq);
}

/* The ring with the next response to send, or NULL. */
static struct responses *next_responses(struct roce_qp *tq)
{
	if (!is_empty(&tq->replays))
		return &tq->replays;
	return is_empty(&tq->responses) ? NULL : &tq->responses;
}

/*
 * A READ or atomic counts as completed when its response begins (IBA C9-148), so that MSNs never
 * decrease: a repeated response, which goes first, has the last MSN that was sent.
 */
static uint32_t msn_of(const struct roce_qp *tq, const struct responses *responses)
{
	const struct responses *fresh = &tq->responses;
	const struct response *next = response_at(fresh, fresh->head);

	if (is_empty(fresh))
		return tq->msn;
	return responses == fresh || !next->first ? next->msn : msn_add(next->msn, -1);
}

static void add_atomic(struct burst *burst, struct roce_qp *tq, const struct response *response,
		       uint32_t msn)
{
	struct packet header = {
		.opcode = (uint8_t)packet_find_opcode(roce_service(tq->qp), PACKET_ATOMIC_ACK, true,
						      true, 0),
		.dest_qpn = tq->qp->attr.dest_qp_num,
		.original = response->original,
		.psn = response->psn,
		.syndrome = PACKET_SYNDROME_ACK | PACKET_ACK_UNLIMITED,
		.msn = msn,
		.atomic_result = response->value,
	};

	burst_add(burst, &header);
}

/* One packet of a READ's response; its payload is in the burst. */
static void add_read(struct burst *burst, struct roce_qp *tq, const struct response *response,
		     uint32_t msn, uint8_t *payload, uint32_t bytes)
{
	struct wire_packet *packet = burst_next(burst);
	bool last = bytes == response->left;
	struct packet header = {
		.opcode = (uint8_t)packet_find_opcode(roce_service(tq->qp), PACKET_READ_RESPONSE,
						      response->first, last, 0),
		.dest_qpn = tq->qp->attr.dest_qp_num,
		.original = response->original,
		.psn = response->psn,
		.syndrome = PACKET_SYNDROME_ACK | PACKET_ACK_UNLIMITED,
		.msn = msn,
	};

	packet->piece[0] = (struct iovec){ payload, bytes };
	packet->pieces = bytes ? 1 : 0;
	packet->payload_bytes = (uint16_t)bytes;
	burst_add(burst, &header);
}

/* Advances past the packet that was added. */
static void step(struct responses *responses, uint32_t bytes)
{
	struct response *response = response_at(responses, responses->head);

	response->first = false;
	response->psn = psn_add(response->psn, 1);
	response->va += bytes;
	response->left -= bytes;
	if (psn_equal(response->psn, response->end))
		responses->head++;
}

/* So many packets of the response fit into this burst and this turn. */
static uint32_t packets_now(const struct burst *burst, const struct roce_qp *tq,
			    const struct response *response, uint32_t turn)
{
	uint32_t packets = (uint32_t)psn_diff(response->end, response->psn);
	const uint32_t limits[] = { turn, burst_places(burst), burst_room(burst) / tq->mtu };

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (limits[i] < packets)
			packets = limits[i];
	return packets;
}

/*
 * The data of the next packets. CAUSE_NONE, or why not: the key is checked in any case. *gone: the
 * copies are there no more.
 */
static enum cause read_data(struct roce_qp *tq, const struct response *response,
			    const struct copied_read *part, uint8_t *to, bool *gone)
{
	const struct memory_peer peer = { response->pd, tq->qp->ib.qp_num };
	enum cause cause = CAUSE_NONE;

	if (response->copied) {
		const struct remote_range range = { part->rkey, part->bytes, part->va };

		if (execute_check_read(tq->qp, &range, response->pd, &cause) == VERDICT_OK)
			*gone = !copies_get(tq->copies, part, to);
	} else if (part->bytes) {
		cause = memory_read_remote(peer, part->rkey, part->va, to, part->bytes);
	}
	return cause;
}

/*
 * Adds as much of the head's response as there is room for; returns the packets. Copies the payload
 * at once, because the memory may change.
 */
static uint32_t add_response(struct burst *burst, struct roce_qp *tq, struct responses *responses,
			     uint32_t turn, enum cause *cause)
{
	struct response *response = response_at(responses, responses->head);
	uint32_t packets = packets_now(burst, tq, response, turn);
	uint64_t room = (uint64_t)packets * tq->mtu;
	uint32_t bytes = response->left < room ? response->left : (uint32_t)room;
	uint8_t *payload = burst_stage(burst, bytes);
	const struct copied_read part = part_of(response->psn, psn_add(response->psn, packets),
						response->rkey, response->va, bytes);
	bool gone = false;

	*cause = CAUSE_NONE;
	if (packets && !response->atomic)
		*cause = read_data(tq, response, &part, payload, &gone);
	if (gone) /* the requester will ask once more */
		responses->head++;
	if (*cause != CAUSE_NONE || gone)
		return 0;
	if (tq->copies && packets && responses == &tq->responses && !response->atomic)
		copies_add(tq->copies, &part, response->first, payload);
	for (uint32_t i = 0; i < packets; i++) {
		uint32_t n = bytes < tq->mtu ? bytes : tq->mtu, msn = msn_of(tq, responses);

		if (response->atomic)
			add_atomic(burst, tq, response, msn);
		else
			add_read(burst, tq, response, msn, payload, n);
		step(responses, n);
		payload += n;
		bytes -= n;
	}
	return packets;
}

enum cause response_fill(struct roce_qp *tq, struct burst *burst, uint32_t *turn)
{
	enum cause cause = CAUSE_NONE;
	struct responses *responses;

	while ((responses = next_responses(tq)) != NULL) {
		uint32_t added = add_response(burst, tq, responses, *turn, &cause);

		if (!added)
			break;
		*turn -= added;
	}
	return cause;
}

/* Acknowledges everything up to ack_psn. */
static struct packet acknowledgement(const struct roce_qp *tq)
{
	return (struct packet){
		.opcode = (uint8_t)packet_find_opcode(roce_service(tq->qp), PACKET_ACK, true, true,
						      0),
		.pkey = PACKET_PKEY,
		.dest_qpn = tq->qp->attr.dest_qp_num,
		.psn = tq->ack_psn,
		.syndrome = PACKET_SYNDROME_ACK | PACKET_ACK_UNLIMITED,
		.msn = tq->msn,
	};
}

bool response_is_owed(const struct roce_qp *tq)
{
	return !is_empty(&tq->responses) || !is_empty(&tq->replays);
}

bool response_owes_more(const struct roce_qp *tq)
{
	return tq->held || tq->nak.owed || tq->congestion_seen || response_is_owed(tq);
}

bool response_is_ack_only(const struct roce_qp *tq)
{
	return tq->ack_owed && !response_owes_more(tq) && !gap_report_is_owed(tq);
}

void response_take_ack(struct roce_qp *tq, struct wire_packet *packet)
{
	struct packet header = acknowledgement(tq);

	packet->header_bytes = (uint16_t)packet_encode(&header, packet->header);
	packet->payload_bytes = 0;
	packet->pad_bytes = packet->pieces = 0;
	tq->ack_owed = false;
}

void response_fill_ack(const struct roce_qp *tq, struct burst *burst)
{
	struct packet header = acknowledgement(tq);

	if (tq->nak.owed) {
		header.psn = tq->nak.psn;
		header.syndrome = tq->nak.syndrome;
		if ((header.syndrome & PACKET_SYNDROME_MASK) == PACKET_SYNDROME_RNR)
			header.syndrome |= tq->qp->attr.min_rnr_timer & 31;
	}
	burst_add(burst, &header);
}

static void save(const struct responses *responses, struct saved_responses *saved)
{
	saved->head = responses->head;
	saved->tail = responses->tail;
	for (uint32_t i = saved->head; i != saved->tail; i++)
		saved->entries[i - saved->head] = *response_at(responses, i);
}

static void restore(struct responses *responses, const struct saved_responses *saved)
{
	responses->head = saved->head;
	responses->tail = saved->tail;
	for (uint32_t i = saved->head; i != saved->tail; i++)
		*response_at(responses, i) = saved->entries[i - saved->head];
}

void response_save(const struct roce_qp *tq, struct response_state *state)
{
	save(&tq->responses, &state->responses);
	save(&tq->replays, &state->replays);
}

void response_restore(struct roce_qp *tq, const struct response_state *state, unsigned left)
{
	struct responses *responses;

	restore(&tq->responses, &state->responses);
	restore(&tq->replays, &state->replays);
	for (; left && (responses = next_responses(tq)) != NULL; left--) {
		const struct response *response = response_at(responses, responses->head);

		step(responses, response->left < tq->mtu ? response->left : tq->mtu);
	}
}

void response_fail_read(struct roce_qp *tq, enum cause cause) REQUIRES(tq->qp->lock)
{
	struct responses *responses = next_responses(tq);
	struct response response = *response_at(responses, responses->head);
	struct qp *qp = tq->qp;

	if (responses == &tq->replays) {
		responses->head++;
		return;
	}
	response_drop_all(tq);
	if (tq->nak.final) { /* of a later request: the QP has failed already */
		tq->nak.psn = response.psn;
		tq->nak.syndrome = PACKET_SYNDROME_NAK | PACKET_NAK_REMOTE_ACCESS;
		return;
	}
	cause_report(cause, qp->ib.qp_num, "READ of rkey 0x%x, address 0x%llx", response.rkey,
		     (unsigned long long)response.va);
	qp_raise(qp, IBV_EVENT_QP_ACCESS_ERR);
	qp_fail(tq->qp, cause);
	response_nak(tq, &(struct nak){ .owed = true,
					.final = true,
					.syndrome = PACKET_SYNDROME_NAK | PACKET_NAK_REMOTE_ACCESS,
					.psn = response.psn });
}

#ifdef VERBATIM_CHECK
/* PSNs rise, bytes and packets agree, none is of a request that was not executed. */
static void check_responses(const struct roce_qp *tq, const struct responses *responses)
{
	uint32_t qpn = tq->qp->ib.qp_num, count = responses->tail - responses->head;
	const struct response *before = NULL;

	INVARIANT(count <= responses->slots, "QP 0x%06x: %u responses owed", qpn, count);
	for (uint32_t i = responses->head; i != responses->tail; i++) {
		const struct response *response = response_at(responses, i);
		uint32_t packets = (uint32_t)psn_diff(response->end, response->psn);

		INVARIANT(packets == packets_of(response->left, tq->mtu),
			  "QP 0x%06x: PSNs %06x to %06x, %u bytes left, MTU %u", qpn,
			  response->psn.number, response->end.number, response->left, tq->mtu);
		INVARIANT(!psn_before(tq->expected_psn, response->end),
			  "QP 0x%06x: PSNs %06x to %06x, expected %06x", qpn, response->psn.number,
			  response->end.number, tq->expected_psn.number);
		INVARIANT(!before || response->original || before->original ||
				  !psn_before(response->psn, before->end),
			  "QP 0x%06x: PSN %06x behind %06x", qpn, response->psn.number,
			  before->end.number);
		INVARIANT(!response->copied || (response->original && responses == &tq->replays),
			  "QP 0x%06x: PSN %06x", qpn, response->psn.number);
		INVARIANT(i == responses->head || response->first, "QP 0x%06x: PSN %06x is begun",
			  qpn, response->psn.number);
		before = response;
	}
}

/*
 * Invariants of a responder's owed packets:
 * - no more responses than it has resources for, to new requests and to duplicates each;
 * - responses in the order of their PSNs but for originals, all before expected_psn: of requests
 *   that were executed;
 * - only the first one may be partly sent, and the packets left of each match its bytes;
 * - a final NAK is that of a QP in ERR.
 */
void response_check(const struct roce_qp *tq)
{
	check_responses(tq, &tq->responses);
	check_responses(tq, &tq->replays);
	copies_check(tq->copies, tq->qp->ib.qp_num);
	INVARIANT(!tq->nak.final || qp_state(tq->qp) == IBV_QPS_ERR, "QP 0x%06x: state %d",
		  tq->qp->ib.qp_num, qp_state(tq->qp));
}
#endif
