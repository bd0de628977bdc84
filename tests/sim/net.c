/* SPDX-License-Identifier: BSD-2-Clause */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "roce/gso.h"
#include "roce/roce.h"

#define SOURCE_PORT  49200
#define ECN_CE	     3
#define ECN_ECT0     2
#define ON_THE_WAY   65536 /* packets, at most */
#define HOP_LIMIT    64
#define BTH_RESERVED 4
#define FOREIGN	     200    /* a host that has no ends */
#define MARKED_NS    200000 /* a packet that waits for so long at a router */
#define LOST_NS	     1000000

struct flight {
	uint64_t when_ns;
	uint64_t number;       /* orders what arrives at the same time */
	uint64_t sent;	       /* net_number: a duplicate has the same */
	struct wire_flow flow; /* as the receiver sees it */
	bool damaged;
	uint32_t length; /* with the ICRC */
	uint8_t bytes[];
};

struct net_counts net_counts;
bool net_verbose;

static struct net_weather weather;
static struct random dice;
static const struct net_observer *observer;
static uint64_t now_ns, numbers;
static uint64_t observed;	/* net_number */
static uint16_t identification; /* the receiver's guess */
static uint64_t
	router_free_ns[256]; /* by host: when the router has sent all packets that wait for it */
static bool was_marked[256]; /* by host: marked packets came, which cause a CNP */
static struct flight *heap[ON_THE_WAY];
static unsigned heap_count;

static bool is_before(const struct flight *a, const struct flight *b)
{
	return a->when_ns != b->when_ns ? a->when_ns < b->when_ns : a->number < b->number;
}

static void heap_push(struct flight *flight)
{
	unsigned at = heap_count++;

	for (; at > 0 && is_before(flight, heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = flight;
}

static struct flight *heap_pop(void)
{
	struct flight *first = heap[0], *last = heap[--heap_count];
	unsigned at = 0;

	for (;;) {
		unsigned child = 2 * at + 1;

		if (child >= heap_count)
			break;
		if (child + 1 < heap_count && is_before(heap[child + 1], heap[child]))
			child++;
		if (!is_before(heap[child], last))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

void net_start(const struct net_weather *is, uint64_t seed)
{
	weather = *is;
	dice.state = seed;
	now_ns = 1000000000;
	numbers = 0;
	identification = 0;
	memset(was_marked, 0, sizeof(was_marked));
	memset(router_free_ns, 0, sizeof(router_free_ns));
	gso_reset_after_fork();
	memset(&net_counts, 0, sizeof(net_counts));
}

void net_stop(void)
{
	while (heap_count > 0)
		free(heap_pop());
}

void net_observe(const struct net_observer *is)
{
	observer = is;
}

uint64_t net_number(void)
{
	return observed;
}

uint64_t net_now(void)
{
	return now_ns;
}

void net_advance(uint64_t to_ns)
{
	if (to_ns > now_ns)
		now_ns = to_ns;
}

uint64_t net_next_ns(void)
{
	return heap_count ? heap[0]->when_ns : NET_NEVER;
}

union ibv_gid net_gid(unsigned host)
{
	union ibv_gid gid = { .raw = { 0 } };

	if (weather.v6) {
		gid.raw[0] = 0xfd;
	} else {
		gid.raw[10] = gid.raw[11] = 0xff;
		gid.raw[12] = 10;
	}
	gid.raw[15] = (uint8_t)(host + 1);
	return gid;
}

/* An end is on the host of its sgid_index. */
int net_resolve(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		struct wire_flow *flow)
{
	union ibv_gid local = net_gid(attr->grh.sgid_index);

	memset(flow, 0, sizeof(*flow));
	memcpy(flow->local, local.raw, sizeof(flow->local));
	memcpy(flow->remote, attr->grh.dgid.raw, sizeof(flow->remote));
	flow->traffic_class = attr->grh.traffic_class | ECN_ECT0;
	flow->hop_limit = HOP_LIMIT;
	return 0;
}

void net_answer(const struct wire_flow *arrival, uint32_t remote_qpn, struct wire_flow *flow)
{
	*flow = *arrival;
}

static struct icrc_path path_of(const struct flight *flight)
{
	struct icrc_path path = { .source_port = SOURCE_PORT, .destination_port = WIRE_UDP_PORT };

	memcpy(path.source, flight->flow.remote, sizeof(path.source));
	memcpy(path.destination, flight->flow.local, sizeof(path.destination));
	return path;
}

static void put_icrc(struct flight *flight)
{
	struct icrc_path path = path_of(flight);
	uint16_t id =
		(uint16_t)(random_chance(&dice, 500) ? identification + 1u : random_next(&dice));
	uint32_t icrc = icrc_compute(NULL, &path, weather.v6 ? 0 : id, flight->bytes,
				     flight->length - ICRC_BYTES, NULL, 0, 0);

	for (int i = 0; i < ICRC_BYTES; i++)
		flight->bytes[flight->length - ICRC_BYTES + i] = (uint8_t)(icrc >> 8 * i);
}

static struct flight *flatten(const struct wire_flow *flow, const struct wire_packet *packet)
{
	uint32_t length = packet->header_bytes + packet->payload_bytes + packet->pad_bytes;
	struct flight *flight = malloc(sizeof(*flight) + length + ICRC_BYTES);
	uint8_t *at = flight->bytes;
	uint32_t bytes = 0;

	flight->damaged = false;
	flight->flow = *flow;
	memcpy(flight->flow.local, flow->remote, sizeof(flow->local));
	memcpy(flight->flow.remote, flow->local, sizeof(flow->remote));
	flight->length = length + ICRC_BYTES;
	memcpy(at, packet->header, packet->header_bytes);
	at += packet->header_bytes;
	for (unsigned i = 0; i < packet->pieces; i++) {
		bytes += (uint32_t)packet->piece[i].iov_len;
		if (bytes > packet->payload_bytes)
			sim_fail("the pieces of a packet are longer than its payload");
		memcpy(at, packet->piece[i].iov_base, packet->piece[i].iov_len);
		at += packet->piece[i].iov_len;
	}
	if (bytes != packet->payload_bytes)
		sim_fail("the pieces of a packet are shorter than its payload");
	memset(at, 0, packet->pad_bytes);
	put_icrc(flight);
	return flight;
}

static uint32_t dest_qpn(const struct flight *flight)
{
	return (uint32_t)flight->bytes[5] << 16 | (uint32_t)flight->bytes[6] << 8 |
	       flight->bytes[7];
}

static void trace(const char *what, const struct flight *flight)
{
	struct packet packet;
	uint32_t length = flight->length - ICRC_BYTES;

	if (!net_verbose)
		return;
	packet_decode(flight->bytes, length, &packet);
	printf("%12.3f us %-9s to %06x %-34s psn %06x%s %u bytes", (double)now_ns / 1e3, what,
	       packet.dest_qpn, packet_opcode(packet.opcode)->name, packet.psn.number,
	       packet.ack_req ? " ack-req" : "", packet.payload_bytes);
	if (packet_opcode(packet.opcode)->headers & PACKET_HAS_AETH)
		printf(" syndrome %02x msn %u", packet.syndrome, packet.msn);
	if (packet_opcode(packet.opcode)->headers & PACKET_HAS_RETH)
		printf(" length %u", packet.length);
	printf("\n");
}

/* How long the packet waits at the router; UINT64_MAX: the router drops it. */
static uint64_t queue(struct flight *flight)
{
	uint64_t *free_ns = &router_free_ns[flight->flow.local[WIRE_GID_BYTES - 1]];
	uint64_t waits_ns = *free_ns > now_ns ? *free_ns - now_ns : 0;

	if (!weather.byte_ns)
		return 0;
	if (waits_ns > LOST_NS) {
		net_counts.queued_lost++;
		return UINT64_MAX;
	}
	if (waits_ns > MARKED_NS && (flight->flow.traffic_class & ECN_CE)) {
		net_counts.queued_marked++;
		flight->flow.traffic_class |= ECN_CE;
	}
	*free_ns = now_ns + waits_ns + (uint64_t)weather.byte_ns * flight->length;
	return *free_ns - now_ns;
}

static void fly(struct flight *flight, uint64_t queued_ns)
{
	uint64_t delay = weather.delay_ns + queued_ns;

	if (weather.jitter_ns)
		delay += random_next(&dice) % weather.jitter_ns;
	if (random_chance(&dice, weather.reordering))
		delay += weather.delay_ns * random_range(&dice, 1, 4) / 2;
	if (random_chance(&dice, weather.lateness))
		delay += weather.delay_ns * random_range(&dice, 5, 100);
	flight->when_ns = now_ns + delay;
	flight->number = numbers++;
	if (random_chance(&dice, weather.marks))
		flight->flow.traffic_class |= ECN_CE;
	if (heap_count == ON_THE_WAY)
		sim_fail("more than %u packets on the way", ON_THE_WAY);
	heap_push(flight);
}

/* Some bits flip; those of the byte that the ICRC does not cover stay. */
static void damage(struct flight *flight)
{
	unsigned flips = random_range(&dice, 1, 8);
	uint8_t original[WIRE_HEADER_BYTES + 4096 + 8];

	memcpy(original, flight->bytes, flight->length);
	for (unsigned i = 0; i < flips; i++)
		flight->bytes[random_below(&dice, flight->length)] ^=
			(uint8_t)(1u << random_below(&dice, 8));
	flight->bytes[BTH_RESERVED] = original[BTH_RESERVED];
	flight->damaged = memcmp(flight->bytes, original, flight->length) != 0;
	net_counts.damaged += flight->damaged;
}

static bool is_foreign(const struct flight *flight)
{
	return flight->flow.remote[15] == FOREIGN + 1;
}

/* Sends a copy with an altered PSN from another host. */
static void forge(const struct flight *model)
{
	size_t size = sizeof(*model) + model->length;
	uint32_t header_bytes = packet_header_bytes(model->bytes[0]);
	union ibv_gid gid = net_gid(FOREIGN);
	struct flight *flight;

	if (packet_service(model->bytes[0]) == PACKET_UD ||
	    packet_service(model->bytes[0]) == PACKET_CNP)
		return; /* a datagram may come from any host */
	flight = malloc(size);
	memcpy(flight, model, size);
	memcpy(flight->flow.remote, gid.raw, sizeof(flight->flow.remote));
	flight->bytes[11] = (uint8_t)(flight->bytes[11] + random_below(&dice, 4)); /* PSN */
	for (uint32_t i = header_bytes; i < flight->length - ICRC_BYTES; i++)
		flight->bytes[i] ^= 0xff;
	put_icrc(flight);
	fly(flight, 0);
}

bool net_is_bypassed;

/* A CNP must follow marked packets since the last one, and be Not-ECT. */
static void check_notification(const struct wire_flow *flow, const struct flight *flight)
{
	bool *marked = &was_marked[flow->local[WIRE_GID_BYTES - 1]];

	if (packet_service(flight->bytes[0]) != PACKET_CNP)
		return;
	if (flow->traffic_class & ECN_CE)
		sim_fail("a CNP with ECN bits %u", flow->traffic_class & ECN_CE);
	if (!*marked && !net_is_bypassed)
		sim_fail("a CNP for no packet");
	*marked = false;
}

static void launch(const struct wire_flow *flow, const struct wire_packet *packet)
{
	struct flight *flight = flatten(flow, packet), *copy;
	uint64_t queued_ns = queue(flight);

	check_notification(flow, flight);
	net_counts.one_by_one += flow->one_by_one;
	flight->sent = observed = ++net_counts.sent;
	observer->sent(flight->bytes, flight->length - ICRC_BYTES);
	if (random_chance(&dice, weather.forgery))
		forge(flight);
	/* behind the router, or the copy would arrive ahead of packets that were sent before */
	if (random_chance(&dice, weather.duplication) && queued_ns != UINT64_MAX) {
		size_t size = sizeof(*flight) + flight->length;

		copy = malloc(size);
		memcpy(copy, flight, size);
		net_counts.duplicated++;
		fly(copy, queued_ns);
	}
	if (random_chance(&dice, weather.loss) || queued_ns == UINT64_MAX) {
		net_counts.lost++;
		trace("lost", flight);
		observer->lost(dest_qpn(flight));
		free(flight);
		return;
	}
	trace("sent", flight);
	if (random_chance(&dice, weather.damage)) {
		uint32_t qpn = dest_qpn(flight);

		damage(flight);
		if (flight->damaged)
			observer->lost(qpn);
	}
	fly(flight, queued_ns);
}

/* The packets of a GSO batch arrive one by one, but may be damaged together. */
bool net_sends_gso(const struct wire_flow *flow)
{
	return weather.gso_damaged;
}

/*
 * Whether packets[i] leaves with packets[i - 1] in a GSO batch, as udp/udp_send.c makes them,
 * without the limit of their length.
 */
static bool is_behind(const struct wire_flow *flow, const struct wire_packet *packets, unsigned i)
{
	uint32_t before, own;

	if (!i || flow->one_by_one)
		return false;
	before = packets[i - 1].header_bytes + packets[i - 1].payload_bytes +
		 packets[i - 1].pad_bytes;
	own = packets[i].header_bytes + packets[i].payload_bytes + packets[i].pad_bytes;
	return own == before;
}

static void lose(const struct wire_packet *packet)
{
	observer->lost((uint32_t)packet->header[5] << 16 | (uint32_t)packet->header[6] << 8 |
		       packet->header[7]);
}

enum wire_result net_send(const struct wire_flow *flow, const struct wire_packet *packets,
			  unsigned count, unsigned *sent)
{
	enum wire_result result = WIRE_SENT;
	unsigned taken = count;

	if (count == 0 || count > WIRE_BURST)
		sim_fail("a burst of %u packets", count);
	if (random_chance(&dice, weather.unreachable)) {
		taken = random_below(&dice, count);
		result = WIRE_NO_ROUTE;
	} else if (random_chance(&dice, weather.full)) {
		taken = random_below(&dice, count);
		result = WIRE_FULL;
	}
	for (unsigned i = 0; i < taken; i++) {
		if (!weather.gso_damaged || !is_behind(flow, packets, i)) {
			launch(flow, &packets[i]);
			continue;
		}
		net_counts.lost++;
		lose(&packets[i]);
	}
	for (unsigned i = taken; result == WIRE_NO_ROUTE && i < count; i++)
		lose(&packets[i]);
	*sent = taken;
	return result;
}

static void arrive(struct flight *flight)
{
	static struct icrc_memo memo;
	struct icrc_path path = path_of(flight);
	struct wire_arrival arrival = {
		.flow = &flight->flow,
		.when_ns = now_ns,
	};
	uint8_t *exact;

	if (!icrc_check(&memo, &path, flight->bytes, flight->length, &identification)) {
		net_counts.refused++;
		return;
	}
	/*
	 * One in 2^16 passes, because the receiver solves for the identification. UDP's checksum,
	 * which covers the same bytes, would have found it.
	 */
	if (flight->damaged) {
		net_counts.undetected++;
		return;
	}
	trace("arrives", flight);
	net_counts.delivered++;
	if ((flight->flow.traffic_class & ECN_CE) == ECN_CE &&
	    packet_service(flight->bytes[0]) != PACKET_CNP)
		was_marked[flight->flow.local[WIRE_GID_BYTES - 1]] = true;
	/* A copy of exactly that size, so that a sanitizer detects a read beyond it. */
	arrival.length = flight->length - ICRC_BYTES;
	exact = malloc(arrival.length);
	memcpy(exact, flight->bytes, arrival.length);
	arrival.bytes = exact;
	observed = flight->sent;
	if (!is_foreign(flight))
		observer->delivered(exact, arrival.length);
	roce_receive(&arrival);
	free(exact);
}

void net_deliver(unsigned max)
{
	for (unsigned i = 0; i < max && net_next_ns() <= now_ns; i++) {
		struct flight *flight = heap_pop();

		arrive(flight);
		free(flight);
	}
	roce_flush();
}
