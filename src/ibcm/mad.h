/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MAD - encodes and decodes messages of connection management: 256 bytes on the wire
 * (IBA 13.4, 12.6).
 *
 * Pure. Class 0x07 version 2, method Send.
 */
#ifndef IBCM_MAD_H
#define IBCM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ibcm/message.h"

#define MAD_BYTES 256

/* Room for private data in a message of this type; 0: there is no such type. */
unsigned mad_private_bytes(enum ibcm_type type);

/* private_bytes is at most what the type has room for. */
void mad_encode(const struct ibcm_message *message, uint8_t mad[MAD_BYTES]);

/* bytes: anything. False: no message of connection management that is known here. */
bool mad_decode(const uint8_t *bytes, size_t length, struct ibcm_message *out);

#endif
