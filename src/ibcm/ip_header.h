/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP header - both addresses and the source port, before the program's private data in a REQ or
 * SIDR_REQ for a service of IP addressing (IBA annex A11).
 *
 * Pure.
 */
#ifndef IBCM_IP_HEADER_H
#define IBCM_IP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "ibcm/message.h"

#define IP_HEADER_BYTES 36

struct ip_header {
	bool is_v4;
	uint16_t source_port;					     /* host order */
	uint8_t source[IBCM_GID_BYTES], destination[IBCM_GID_BYTES]; /* IPv4 addresses are mapped */
};

void ip_header_encode(const struct ip_header *header, uint8_t bytes[IP_HEADER_BYTES]);

/* False: the header has an unknown version. */
bool ip_header_decode(const uint8_t bytes[IP_HEADER_BYTES], struct ip_header *out);

/* The service ID of a port, which is in host order. */
uint64_t ip_header_service_id(uint16_t space, uint16_t port);

/* The port space and port of a service ID. False: it is no service of IP addressing. */
bool ip_header_service(uint64_t service_id, uint16_t *space, uint16_t *port);

#endif
