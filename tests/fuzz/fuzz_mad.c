/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as messages of connection management, against a connection in any state: decoding stays
 * within them, and a decoded message survives encoding. The connection stays in its states, sends
 * at most one message for each received one, and ends once it is abandoned.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ibcm/connection.h"
#include "ibcm/ip_header.h"
#include "ibcm/mad.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned sent;

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void on_send(struct connection *c, const struct ibcm_message *m)
{
	uint8_t mad[MAD_BYTES];
	struct ibcm_message back;

	sent++;
	require(m->private_bytes <= mad_private_bytes(m->type));
	mad_encode(m, mad);
	require(mad_decode(mad, sizeof(mad), &back));
}

static void on_raise(struct connection *c, enum connection_event event,
		     const struct ibcm_message *m)
{
	require(!c->abandoned);
}

static const struct connection_env env = { on_send, on_raise };

static void check_encoding(const struct ibcm_message *m)
{
	struct ibcm_message again;
	uint8_t mad[MAD_BYTES];

	mad_encode(m, mad);
	require(mad_decode(mad, sizeof(mad), &again));
	require(memcmp(m, &again, sizeof(again)) == 0);
}

/* One step of the user or of time. */
static void step(struct connection *c, uint8_t what, int64_t *now_ns)
{
	struct ibcm_message end = { .qpn = 5, .reason = what };

	switch (what % 8) {
	case 0:
		connection_accept(c, &end, *now_ns);
		break;
	case 1:
		connection_reject(c, &end);
		break;
	case 2:
		connection_ready(c);
		break;
	case 3:
		connection_establish(c);
		break;
	case 4:
		connection_disconnect(c, *now_ns);
		break;
	case 5:
		*now_ns += INT64_C(6000000000);
		connection_on_time(c, *now_ns);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ibcm_message request = { .type = IBCM_REQ, .qpn = 5 };
	struct connection c;
	int64_t now_ns = 1;

	connection_init(&c, &env, 7);
	if (size && data[0] & 1)
		connection_connect(&c, &request, now_ns);
	while (size > MAD_BYTES) {
		struct ibcm_message m;
		struct ip_header header;

		step(&c, data[0] >> 1, &now_ns);
		if (mad_decode(data + 1, MAD_BYTES, &m)) {
			check_encoding(&m);
			ip_header_decode(m.private_data, &header);
			sent = 0;
			if (c.state == CONNECTION_CLOSED &&
			    (m.type == IBCM_REQ || m.type == IBCM_SIDR_REQ))
				connection_on_request(&c, &m, now_ns);
			else
				connection_on_message(&c, &m, now_ns);
			require(sent <= 1);
		}
		data += 1 + MAD_BYTES;
		size -= 1 + MAD_BYTES;
	}
	connection_abandon(&c, now_ns);
	for (int i = 0; i < 64; i++) {
		now_ns += INT64_C(200000000000);
		connection_on_time(&c, now_ns);
	}
	require(c.state == CONNECTION_CLOSED);
	return 0;
}
