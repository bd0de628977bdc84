/* SPDX-License-Identifier: BSD-2-Clause */
#include "read_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"
#include "execute/copies.h"

uint8_t here[READ_BYTES] PAIR_ALIGNED, there[READ_BYTES] PAIR_ALIGNED;
static struct rig_options options;

unsigned lose_response[MANY], lose_request[MANY], responses[MANY], requests[MANY];
unsigned asked, asked_packets;
bool foreign, marks_all, echoes;
static uint8_t reserved[MANY]; /* bits of the request for this response */
uint32_t version;
static uint64_t before[COUNTERS];

void raise_version(void)
{
	uint32_t *words = (uint32_t *)there;

	version++;
	for (unsigned i = 0; i < READ_BYTES / sizeof(*words); i++)
		words[i] = version;
}

uint64_t counted(enum counter counter)
{
	return counter_read(counter) - before[counter];
}

uint32_t index_of(psn_t psn)
{
	uint32_t index = psn_sub(psn, options.psn).number;

	assert_true(index < MANY);
	return index;
}

psn_t psn(uint32_t index)
{
	return psn_of(options.psn + index);
}

bool on_packet(struct rig_packet *packet, struct packet *decoded)
{
	uint32_t index = index_of(decoded->psn);

	if (decoded->dest_qpn != b->ib.qp_num) {
		if (marks_all)
			packet->bytes[RESERVED_AT] |= 2;
		if (echoes && responses[index])
			packet->bytes[RESERVED_AT] |= reserved[index];
		return responses[index]++ >= lose_response[index];
	}
	if (requests[index]++ < lose_request[index])
		return false;
	raise_version();
	if (decoded->original) {
		asked++;
		asked_packets += packets_of(decoded->length, MTU);
	}
	if (decoded->opcode == READ_REQUEST)
		memset(reserved + index, packet->bytes[RESERVED_AT] & 0x7f,
		       packets_of(decoded->length, MTU));
	if (foreign)
		packet->bytes[RESERVED_AT] &= 0x80;
	return true;
}

int read_setup(void **state)
{
	options = (struct rig_options){ .access = READ_ACCESS,
					.timeout = 14,
					.retry_cnt = 7,
					.rnr_retry = 7,
					.min_rnr_timer = 12,
					.rd_atomic = 16,
					.psn = 0xfffff0 };
	pair_regions(here, there, READ_BYTES, READ_ACCESS);
	memset(lose_response, 0, sizeof(lose_response));
	memset(lose_request, 0, sizeof(lose_request));
	memset(responses, 0, sizeof(responses));
	memset(requests, 0, sizeof(requests));
	memset(here, 0, READ_BYTES);
	asked = asked_packets = version = 0;
	foreign = marks_all = echoes = false;
	for (unsigned i = 0; i < COUNTERS; i++)
		before[i] = counter_read((enum counter)i);
	pair_connect(IBV_QPT_RC, &options);
	rig_on_packet = on_packet;
	raise_version();
	return 0;
}

void run_us(uint64_t us)
{
	rig_run(rig_now_ns + us * 1000);
}

void expect(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		pair_expect(i, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(&rig));
}

void check_order(uint32_t bytes)
{
	const uint32_t *words = (const uint32_t *)here;

	for (uint32_t i = 0; i < bytes / sizeof(*words); i++) {
		assert_in_range(words[i], 1, version);
		assert_true(!i || words[i] >= words[i - 1]);
	}
}

void post_reads(unsigned count, uint32_t packets)
{
	for (unsigned i = 0; i < count; i++)
		pair_post_at(IBV_WR_RDMA_READ, i * packets * MTU, packets * MTU, i + 1, 0);
}

void get_acquainted(void)
{
	pair_post_at(IBV_WR_RDMA_READ, 0, 4, 0, 0);
	run_us(900);
	expect(0, 1);
	roce_of(a)->read_repair.trusted = true;
	copies_start(&roce_of(b)->copies, MTU);
}

void inject_read(uint32_t index, uint32_t offset, uint32_t bytes, bool original, uint32_t rkey)
{
	const struct packet packet = {
		.opcode = READ_REQUEST,
		.psn = psn(index),
		.va = (uintptr_t)there + offset,
		.rkey = rkey,
		.length = bytes,
		.original = original,
	};

	rig_inject(a, &packet, NULL);
	rig_step();
}

void expect_responses(uint32_t index, unsigned count, bool marked, uint32_t is)
{
	uint32_t word;

	roce_flush();
	assert_int_equal(rig_waiting(), count);
	for (unsigned i = 0; i < count; i++) {
		struct packet packet = rig_peek(0);

		assert_int_equal(packet.psn.number, psn(index + i).number);
		assert_int_equal(packet.original, marked);
		memcpy(&word, packet.payload, sizeof(word));
		assert_int_equal(word, is);
		rig_step();
	}
}
