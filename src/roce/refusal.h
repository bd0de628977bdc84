/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refusal - the syndromes of the refusals of execute/verdict.h, for responder and completer. Pure.
 */
#ifndef ROCE_REFUSAL_H
#define ROCE_REFUSAL_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "execute/verdict.h"

/* The syndrome of a refusal that is not silent; an RNR NAK's is without the timer code. */
uint8_t refusal_syndrome(enum refusal refusal);

/* The completion status of a request with this NAK; IBV_WC_SUCCESS: the NAK ends no request. */
enum ibv_wc_status refusal_status(uint8_t syndrome);

#endif
