/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refusal - how a NAK's syndrome says what execute/verdict.h calls a refusal. Pure.
 *
 * The responder writes it, the completer reads it.
 */
#ifndef ROCE_REFUSAL_H
#define ROCE_REFUSAL_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "execute/verdict.h"

/* Of a refusal that is not silent; that of an RNR NAK is without the timer. */
uint8_t refusal_syndrome(enum refusal refusal);

/* What a request completes with that got this NAK; IBV_WC_SUCCESS: no NAK that ends a request. */
enum ibv_wc_status refusal_status(uint8_t syndrome);

#endif
