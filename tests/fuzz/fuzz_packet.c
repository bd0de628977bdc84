/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a packet: decoding stays within them, a decoded packet survives encoding, and
 * icrc_check accepts the ICRC of icrc_compute.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "packet/icrc.h"
#include "packet/packet.h"

#define PATH_BYTES (sizeof(struct icrc_path))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* All fields are equal, except the payload's address. */
static void require_same(struct packet a, struct packet b)
{
	require(a.payload_bytes == b.payload_bytes);
	require(a.payload_bytes == 0 || memcmp(a.payload, b.payload, a.payload_bytes) == 0);
	a.payload = b.payload = NULL;
	require(memcmp(&a, &b, sizeof(a)) == 0);
}

static void check_encoding(const uint8_t *bytes, size_t length, const struct packet *packet)
{
	unsigned header_bytes = packet_header_bytes(packet->opcode);
	uint8_t header[PACKET_HEADER_BYTES];
	struct packet again;
	uint8_t *copy;

	require(packet->payload == bytes + header_bytes);
	require(header_bytes + packet->payload_bytes + packet->pad == length);
	require(packet_encode(packet, header) == header_bytes);

	copy = malloc(length);
	require(copy != NULL);
	memcpy(copy, bytes, length);
	memcpy(copy, header, header_bytes);
	require(packet_decode(copy, length, &again) == PACKET_GOOD);
	require_same(*packet, again);
	free(copy);
}

static void check_icrc(const struct icrc_path *path, const uint8_t *bytes, size_t length)
{
	uint16_t identification = 0, found = 1;
	struct iovec piece;
	uint32_t icrc;
	uint8_t *copy;

	icrc_check(NULL, path, bytes, length, &identification);
	if (length < PACKET_BTH_BYTES)
		return;
	copy = malloc(length + ICRC_BYTES);
	require(copy != NULL);
	memcpy(copy, bytes, length);
	piece.iov_base = copy + PACKET_BTH_BYTES;
	piece.iov_len = length - PACKET_BTH_BYTES;
	icrc = icrc_compute(NULL, path, identification, copy, PACKET_BTH_BYTES, &piece, 1, 0);
	for (int i = 0; i < ICRC_BYTES; i++)
		copy[length + i] = (uint8_t)(icrc >> 8 * i);
	require(icrc_check(NULL, path, copy, length + ICRC_BYTES, &found));
	if (memcmp(path->source, (uint8_t[12]){ [10] = 0xff, [11] = 0xff }, 12) == 0)
		require(found == identification);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct icrc_path path;
	struct packet packet;

	icrc_init();
	if (packet_decode(data, size, &packet) == PACKET_GOOD)
		check_encoding(data, size, &packet);

	memset(&path, 0, sizeof(path));
	path.source[10] = path.source[11] = 0xff;
	check_icrc(&path, data, size);
	if (size > PATH_BYTES) {
		memcpy(&path, data, PATH_BYTES);
		check_icrc(&path, data + PATH_BYTES, size - PATH_BYTES);
	}
	return 0;
}
