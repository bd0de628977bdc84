/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic - CMP_AND_SWP and FETCH_AND_ADD, executed by the owner of the memory.
 *
 * All atomics of a process's memory are executed in that process with the processor's own locked
 * instructions, so they are atomic with regard to each other and to the program's
 * (CONTRACT 19). Memory that is not there is a verdict, not a signal: it is probed first.
 */
#ifndef EXECUTE_ATOMIC_H
#define EXECUTE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cause.h"
#include "object/qp.h"

/*
 * CMP_AND_SWP (first = compare, second = swap) or FETCH_AND_ADD (first = add).
 * `address` is a multiple of 8. On CAUSE_NONE *before is what was there, in host order.
 */
enum cause atomic_execute(struct qp *qp, bool compare_swap, uint32_t rkey, uint64_t address,
			  uint64_t first, uint64_t second, uint64_t *before);

/*
 * ATOMIC WRITE: stores `value` as it lies in memory, in one piece, after all that was written before.
 * `address` is a multiple of 8. CAUSE_NONE, or why not.
 */
enum cause atomic_write(struct qp *qp, uint32_t rkey, uint64_t address, uint64_t value);

#endif
