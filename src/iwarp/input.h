/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Input - finds FPDUs in the bytes of the stream, wherever they are cut (RFC 5044 4).
 *
 * In:  bytes that env.receive yields.
 * Out: segments (accept.h), their payload as it comes. Payload of some length is received in place.
 *
 * With CRCs or markers an FPDU is put together first, so that nothing of a damaged one is executed.
 *
 * Callers hold the QP's lock. Never waits.
 */
#ifndef IWARP_INPUT_H
#define IWARP_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "iwarp/iwarp_qp.h"

/* Allocates the buffers; options are set. 0, -ENOMEM. */
int input_init(struct iwarp_qp *iq);
void input_fini(struct input *input);

/* Bytes that were read before the stream was attached. False: too many. */
bool input_add(struct input *input, const void *bytes, size_t count);

/*
 * Reads and executes until nothing is left, or about 256 KiB were read: true then. Sets *any if
 * bytes came, iq->lost, input.at_end.
 */
bool input_run(struct iwarp_qp *iq, bool *any);

/* Likewise, but forgets what it reads: for a QP in ERR. */
bool input_discard(struct iwarp_qp *iq, bool *any);

#endif
