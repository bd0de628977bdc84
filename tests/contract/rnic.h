/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RNIC - the two ends of a pair connected by rdma_cm, as iWARP wants it.
 *
 * In:  VERBATIM_TRANSPORT=iwarp; QPs in INIT.
 * Out: QPs in RTS.
 *
 * librdmacm is opened when it is needed, so that programs run with libibverbs alone otherwise.
 */
#ifndef CONTRACT_RNIC_H
#define CONTRACT_RNIC_H

#include <stdbool.h>

#include "ends.h"

/* Devices are RNICs: what a rule says of RoCE alone does not hold. */
bool over_iwarp(void);

/* Moves QP `qp` of both ends from INIT to RTS. b listens, a connects. */
void rnic_connect(struct pair *pair, int qp);

#endif
