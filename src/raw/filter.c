/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/filter.h"

#include <linux/if_packet.h>
#include <string.h>

#define TAKE	    0xffffffffu
#define ETH_BYTES   14
#define VARIANT_MAX (4 * FLOW_MATCHES_MAX + 32) /* the two ports of IPv4 need more */
#define TO_NEXT	    0xff /* a jump to the next variant, until its end is known */

_Static_assert(VARIANT_MAX < TO_NEXT, "a jump over a variant fits its 8 bits");

struct program {
	struct sock_filter *code;
	unsigned count, max;
	bool is_full;
};

static void put(struct program *program, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
	if (program->count == program->max) {
		program->is_full = true;
		return;
	}
	program->code[program->count++] = (struct sock_filter){ code, yes, no, k };
}

static void load(struct program *program, uint16_t size, uint32_t offset)
{
	put(program, BPF_LD | size | BPF_ABS, 0, 0, offset);
}

static uint16_t size_of(uint8_t bytes)
{
	return bytes == 4 ? BPF_W : bytes == 2 ? BPF_H : BPF_B;
}

static bool is_whole(const struct flow_match *match)
{
	return match->mask == (match->bytes == 4 ? 0xffffffffu : (1u << 8 * match->bytes) - 1);
}

static void put_match(struct program *program, const struct flow_match *match)
{
	uint16_t size = size_of(match->bytes);

	switch (match->place) {
	case FLOW_VLAN:
		load(program, BPF_B, SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT);
		put(program, BPF_JMP | BPF_JEQ | BPF_K, TO_NEXT, 0, 0);
		load(program, BPF_H, SKF_AD_OFF + SKF_AD_VLAN_TAG);
		break;
	case FLOW_BEHIND_IPV4:
		/* the frame is long enough for the IP header's own length */
		put(program, BPF_LDX | BPF_B | BPF_MSH, 0, 0, ETH_BYTES);
		put(program, BPF_MISC | BPF_TXA, 0, 0, 0);
		/* NOLINTNEXTLINE(misc-redundant-expression): BPF_ADD and BPF_K happen to be 0 */
		put(program, BPF_ALU | BPF_ADD | BPF_K, 0, 0,
		    ETH_BYTES + match->offset + match->bytes);
		put(program, BPF_MISC | BPF_TAX, 0, 0, 0);
		put(program, BPF_LD | BPF_W | BPF_LEN, 0, 0, 0);
		put(program, BPF_JMP | BPF_JGE | BPF_X, 0, TO_NEXT, 0);
		put(program, BPF_LDX | BPF_B | BPF_MSH, 0, 0, ETH_BYTES);
		put(program, BPF_LD | size | BPF_IND, 0, 0, ETH_BYTES + match->offset);
		break;
	default:
		load(program, size, match->offset);
		break;
	}
	if (!is_whole(match))
		put(program, BPF_ALU | BPF_AND | BPF_K, 0, 0, match->mask);
	put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, TO_NEXT, match->value);
}

/* A load beyond the end of a frame would end the program before it tries the next variants. */
static uint32_t bytes_needed(const struct flow_variant *variant)
{
	uint32_t needed = 0;

	for (uint32_t i = 0; i < variant->count; i++) {
		const struct flow_match *match = &variant->match[i];
		uint32_t end = match->offset + match->bytes;

		if (match->place == FLOW_VLAN)
			continue;
		if (match->place == FLOW_BEHIND_IPV4)
			end = ETH_BYTES +
			      1; /* the IP header's length gives the place of the rest */
		if (end > needed)
			needed = end;
	}
	return needed;
}

static void put_variant(struct program *program, const struct flow_variant *variant)
{
	unsigned start = program->count, next;

	put(program, BPF_LD | BPF_W | BPF_LEN, 0, 0, 0);
	put(program, BPF_JMP | BPF_JGE | BPF_K, 0, TO_NEXT, bytes_needed(variant));
	for (uint32_t i = 0; i < variant->count; i++)
		put_match(program, &variant->match[i]);
	put(program, BPF_RET | BPF_K, 0, 0, TAKE);
	next = program->count;
	for (unsigned i = start; i < next; i++) {
		struct sock_filter *code = &program->code[i];

		if (BPF_CLASS(code->code) != BPF_JMP)
			continue;
		if (code->jt == TO_NEXT)
			code->jt = (uint8_t)(next - i - 1);
		if (code->jf == TO_NEXT)
			code->jf = (uint8_t)(next - i - 1);
	}
}

/*
 * Drops frames that this host sends, unless an adapter would loop them back: frames to a group, and
 * to the interface's own address.
 */
static void put_outgoing(struct program *program, const struct filter_interface *interface)
{
	const uint8_t *mac = interface->mac;

	load(program, BPF_B, SKF_AD_OFF + SKF_AD_PKTTYPE);
	if (interface->is_loopback) {
		put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PACKET_OUTGOING);
	} else {
		put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 7, PACKET_OUTGOING);
		load(program, BPF_B, 0);
		put(program, BPF_JMP | BPF_JSET | BPF_K, 5, 0, 1);
		load(program, BPF_W, 0);
		put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 2,
		    (uint32_t)mac[0] << 24 | (uint32_t)mac[1] << 16 | (uint32_t)mac[2] << 8 |
			    mac[3]);
		load(program, BPF_H, 4);
		put(program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, (uint32_t)mac[4] << 8 | mac[5]);
	}
	put(program, BPF_RET | BPF_K, 0, 0, 0);
}

static bool any_sniffer(const struct list *flows)
{
	struct list *pos;

	list_for_each(pos, flows)
		if (list_entry(pos, struct flow, link)->sniffer)
			return true;
	return false;
}

unsigned filter_build(const struct list *flows, const struct filter_interface *interface,
		      struct sock_filter *code, unsigned max)
{
	struct program program = { code, 0, max, false };
	struct list *pos;
	unsigned beginning;

	if (interface->is_loopback || !any_sniffer(flows))
		put_outgoing(&program, interface);
	beginning = program.count;
	list_for_each(pos, flows) {
		const struct flow *flow = list_entry(pos, struct flow, link);

		for (uint32_t i = 0; i < flow->variants; i++)
			put_variant(&program, &flow->variant[i]);
	}
	put(&program, BPF_RET | BPF_K, 0, 0, 0);
	if (program.is_full) {
		program.count = beginning;
		put(&program, BPF_RET | BPF_K, 0, 0, TAKE);
	}
	return program.count;
}

bool filter_returns(const struct filter_interface *interface, const uint8_t *frame)
{
	return !interface->is_loopback &&
	       (frame[0] & 1 || !memcmp(frame, interface->mac, FLOW_MAC_BYTES));
}
