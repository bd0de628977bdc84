/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic - CMP_AND_SWP and FETCH_AND_ADD, executed by the owner of the memory.
 *
 * The owner executes all atomics of its memory with the processor's atomic instructions. So they
 * are atomic with regard to each other and to those of the program (CONTRACT 19). Each word is
 * probed first: unmapped memory yields a cause, not a signal.
 */
#ifndef EXECUTE_ATOMIC_H
#define EXECUTE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cause.h"
#include "object/qp.h"

/*
 * CMP_AND_SWP (first = compare, second = swap) or FETCH_AND_ADD (first = add). `address` is a
 * multiple of 8. CAUSE_NONE writes the original value to *before, in host order.
 */
enum cause atomic_execute(struct qp *qp, bool compare_swap, uint32_t rkey, uint64_t address,
			  uint64_t first, uint64_t second, uint64_t *before);

/*
 * ATOMIC WRITE: stores `value`, which has memory order, in one piece and after all earlier writes.
 * `address` is a multiple of 8. CAUSE_NONE, or the reason why it cannot.
 */
enum cause atomic_write(struct qp *qp, uint32_t rkey, uint64_t address, uint64_t value);

#endif
