/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MAD - encodes and decodes the messages of connection management: MADs of 256 bytes (IBA 13.4,
 * 12.6), class 0x07 version 2, method Send.
 *
 * Pure.
 */
#ifndef IBCM_MAD_H
#define IBCM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ibcm/message.h"

#define MAD_BYTES 256

/* Bytes of private data in a message of this type; 0: there is no such type. */
unsigned mad_private_bytes(enum ibcm_type type);

/* message->private_bytes is at most mad_private_bytes. */
void mad_encode(const struct ibcm_message *message, uint8_t mad[MAD_BYTES]);

/*
 * `bytes` are not trusted. False: they are no message of connection management, or of an unknown
 * type.
 */
bool mad_decode(const uint8_t *bytes, size_t length, struct ibcm_message *out);

#endif
