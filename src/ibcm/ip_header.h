/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP header - precedes the program's private data in a REQ or SIDR_REQ for a service of IP
 * addressing (IBA annex A11): both addresses, and the source port.
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
	uint8_t source[IBCM_GID_BYTES], destination[IBCM_GID_BYTES]; /* IPv4-mapped: IPv4 */
};

void ip_header_encode(const struct ip_header *header, uint8_t bytes[IP_HEADER_BYTES]);

/* False: of an unknown version. */
bool ip_header_decode(const uint8_t bytes[IP_HEADER_BYTES], struct ip_header *out);

/* Port in host order. */
uint64_t ip_header_service_id(uint16_t space, uint16_t port);

/* False: no service of IP addressing. */
bool ip_header_service(uint64_t service_id, uint16_t *space, uint16_t *port);

#endif
