/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Group - datagrams to a multicast group: they arrive while the QP is attached, and not afterwards.
 *
 * The end with a host sends, one message at a time, since lost datagrams are not repeated.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "endpoint.h"
#include "meet.h"
#include "pattern.h"
#include "post.h"

#define GRH	      40u
#define MEMORY_BYTES  (GRH + 4096u)
#define MULTICAST_QPN 0xffffffu
#define SILENCE_NS    INT64_C(200000000)

static union ibv_gid group_of(const struct options *options)
{
	union ibv_gid gid;

	if (!options->group || inet_pton(AF_INET6, options->group, gid.raw) != 1)
		fail("--group: an IPv6 address, or ::ffff:A.B.C.D");
	return gid;
}

static struct ibv_sge message_of(const struct endpoint *e, size_t size)
{
	return (struct ibv_sge){ .addr = (uintptr_t)e->memory + GRH,
				 .length = (uint32_t)size,
				 .lkey = e->mr->lkey };
}

static void receive_into(struct endpoint *e, unsigned number)
{
	struct ibv_sge all = { .addr = (uintptr_t)e->memory,
			       .length = MEMORY_BYTES,
			       .lkey = e->mr->lkey };

	memset(e->memory, PATTERN_BLANK, MEMORY_BYTES);
	post_receive(e, number, &all, 1);
}

/* The datagram's target in the GRH is the group. */
static void check_target(const struct endpoint *e, const union ibv_gid *group)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool is_ipv4 = memcmp(group->raw, mapped, sizeof(mapped)) == 0;
	const uint8_t *target = e->memory + (is_ipv4 ? 36 : 24);
	const uint8_t *wanted = group->raw + (is_ipv4 ? 12 : 0);

	if (memcmp(target, wanted, is_ipv4 ? 4 : 16) != 0)
		fail("the GRH does not name the group");
}

static void receive_one(struct endpoint *e, const union ibv_gid *group, size_t size,
			unsigned number)
{
	struct ibv_sge piece = message_of(e, size);
	struct ibv_wc wc;
	int64_t wrong;

	endpoint_wait_success(e, e->recv_cq, &wc);
	if (wc.byte_len != GRH + size || !(wc.wc_flags & IBV_WC_GRH) || wc.src_qp != e->theirs.qpn)
		fail("datagram %u: %u bytes of %zu, flags %#x, from QP %#x", number, wc.byte_len,
		     size, wc.wc_flags, wc.src_qp);
	wrong = pattern_check(&piece, 1, pattern_seed(e->options->seed, size, number));
	if (wrong >= 0)
		fail("datagram %u of %zu bytes differs at byte %lld", number, size,
		     (long long)wrong);
	check_target(e, group);
}

static void send_one(struct endpoint *e, size_t size, unsigned number)
{
	struct ibv_sge piece = message_of(e, size);
	struct request request = { .operation = OP_SEND, .pieces = &piece, .piece_count = 1 };
	struct ibv_wc wc;

	pattern_fill(&piece, 1, pattern_seed(e->options->seed, size, number));
	post_send_chain(e, &request, 1);
	endpoint_wait_success(e, e->send_cq, &wc);
}

static void expect_silence(struct endpoint *e)
{
	int64_t until = now_ns() + SILENCE_NS;
	struct ibv_wc wc;

	while (now_ns() < until) {
		if (ibv_poll_cq(e->recv_cq, 1, &wc) > 0)
			fail("a datagram came after ibv_detach_mcast");
	}
}

static void address_group(struct endpoint *e, const union ibv_gid *group)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = *group,
			 .sgid_index = (uint8_t)e->options->gid_index,
			 .hop_limit = 1 },
	};

	if (ibv_destroy_ah(e->ah))
		fail("ibv_destroy_ah");
	e->ah = ibv_create_ah(e->pd, &attr);
	if (!e->ah)
		fail("ibv_create_ah of the group");
	e->theirs.qpn = MULTICAST_QPN;
}

static void check(int error, const char *what)
{
	if (error)
		fail("%s: %s", what, strerror(error));
}

int run_group(const struct options *options)
{
	union ibv_gid group = group_of(options);
	struct endpoint e;

	endpoint_open(&e, options, MEMORY_BYTES);
	endpoint_connect(&e);
	if (options->host)
		address_group(&e, &group);
	else
		check(ibv_attach_mcast(e.qp, &group, 0), "ibv_attach_mcast");
	for (unsigned i = 0; i < options->count; i++) {
		size_t size = options->sizes[i % (unsigned)options->size_count];

		if (!options->host)
			receive_into(&e, i);
		meet_barrier(e.fd);
		if (options->host)
			send_one(&e, size, i);
		else
			receive_one(&e, &group, size, i);
	}
	if (!options->host) {
		check(ibv_detach_mcast(e.qp, &group, 0), "ibv_detach_mcast");
		receive_into(&e, options->count);
	}
	meet_barrier(e.fd);
	if (options->host)
		send_one(&e, options->sizes[0], options->count);
	else
		expect_silence(&e);
	meet_barrier(e.fd);
	endpoint_close(&e);
	printf("verified %u datagrams\n", options->count);
	return 0;
}
