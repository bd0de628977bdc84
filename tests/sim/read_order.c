/* SPDX-License-Identifier: BSD-2-Clause */
#include "read_order.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "roce/roce_qp.h"

#define ANSWERS_FIRST 256 /* then twice as many, and so on */

struct answer {
	psn_t psn;
	uint32_t version; /* its first word: all of a packet are read at once */
	bool original;
	uint64_t sent;
};

/* By end, in the order of delivery. */
static struct answers {
	struct answer *row;
	unsigned count, room;
} answers_of[PLAN_ENDS];

void read_order_start(void)
{
	for (unsigned i = 0; i < PLAN_ENDS; i++)
		answers_of[i].count = 0;
}

void read_order_on_response(const struct end *end, const struct packet *packet, uint64_t sent)
{
	struct answers *answers = &answers_of[end->number];
	struct answer answer = { .psn = packet->psn, .original = packet->original, .sent = sent };

	if (packet->payload_bytes < sizeof(answer.version))
		return;
	memcpy(&answer.version, packet->payload, sizeof(answer.version));
	if (answers->count == answers->room) {
		answers->room = answers->room ? 2 * answers->room : ANSWERS_FIRST;
		answers->row = realloc(answers->row, answers->room * sizeof(answer));
		if (!answers->row)
			sim_fail("no memory");
	}
	answers->row[answers->count++] = answer;
}

static bool is_of(const struct answer *answer, const struct version_read *word)
{
	return psn_equal(answer->psn, word->psn) && answer->version == word->version;
}

static bool was_brought(const struct answers *answers, const struct version_read *word)
{
	for (unsigned i = 0; i < answers->count; i++)
		if (is_of(&answers->row[i], word))
			return true;
	return false;
}

/* Whether `before` was sent anew, and delivered, while `after`, without the mark, was on the way.
 */
static bool was_late(const struct answers *answers, const struct version_read *before,
		     const struct version_read *after)
{
	uint64_t newest = 0;

	for (unsigned i = 0; i < answers->count; i++) {
		const struct answer *answer = &answers->row[i];

		if (is_of(answer, before) && !answer->original && answer->sent > newest)
			newest = answer->sent;
		if (is_of(answer, after) && !answer->original && answer->sent < newest)
			return true;
	}
	return false;
}

static psn_t first_psn(const struct plan *plan, const struct end *end, const struct op *op)
{
	psn_t psn = psn_of(end->qp->attr.sq_psn);

	for (const struct op *earlier = end->ops; earlier < op; earlier++)
		psn = psn_add(psn, op_is_flush(earlier)
					   ? 1
					   : packets_of(earlier->length, plan_mtu(plan)));
	return psn;
}

static void check_word(struct end *end, const struct op *op, uint32_t number,
		       const struct version_read *word)
{
	const struct answers *answers = &answers_of[end->number];
	const struct version_read *last = &end->last_read;

	if (!was_brought(answers, word))
		sim_fail("end %u: READ %ld has version %u at word %u, no response with PSN %06x "
			 "brought it",
			 end->number, (long)(op - end->ops), word->version, number,
			 word->psn.number);
	if (word->version < last->version && !was_late(answers, last, word))
		sim_fail("end %u: READ %ld has version %u at word %u, PSN %06x; %u at PSN %06x "
			 "came before it",
			 end->number, (long)(op - end->ops), word->version, number,
			 word->psn.number, last->version, last->psn.number);
	end->last_read = *word;
}

void read_order_check(const struct plan *plan, struct end *end, const struct op *op)
{
	static uint32_t words[PLAN_VERSIONS];
	uint32_t at = 0, in_packet = plan_mtu(plan) / sizeof(*words);
	psn_t psn = first_psn(plan, end, op);

	for (unsigned i = 0; i < op->local.count; i++) {
		memcpy((char *)words + at, world.memory + op->local.at[i], op->local.bytes[i]);
		at += op->local.bytes[i];
	}
	for (uint32_t i = 0; i < op->length / sizeof(*words); i++) {
		const struct version_read word = { psn_add(psn, i / in_packet), words[i] };

		if (i % in_packet == 0)
			check_word(end, op, i, &word);
		else if (word.version != end->last_read.version)
			sim_fail("end %u: READ %ld has version %u at word %u, and %u at the word "
				 "before it, of the same packet",
				 end->number, (long)(op - end->ops), word.version, i,
				 end->last_read.version);
	}
}
