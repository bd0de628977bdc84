/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic - atomics and ATOMIC_WRITE.
 *
 * The owner, and peers that have the word mapped (shm/onesided.h), use the processor's atomic
 * instructions on one physical word. So they are atomic with regard to each other and to those of
 * the program (CONTRACT 19). The owner probes each word first: unmapped memory yields a cause, not
 * a signal.
 */
#ifndef EXECUTE_ATOMIC_H
#define EXECUTE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cause.h"
#include "base/operation.h"
#include "object/qp.h"

/* The access right (enum ibv_access_flags) that the QP and the region have to grant. */
static inline uint32_t atomic_right(enum operation operation)
{
	return operation_is_atomic(operation) ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

/*
 * An operation of a word (operation_is_of_a_word), which is aligned and can be written to; returns
 * the original value.
 */
uint64_t atomic_apply(enum operation operation, uint64_t *word, struct operands operands);

/*
 * The same in memory of this process, by a key. `address` is a multiple of 8. CAUSE_NONE writes
 * the original value to *before, in host order. Otherwise the reason why it cannot.
 */
enum cause atomic_execute(struct qp *qp, enum operation operation, uint32_t rkey, uint64_t address,
			  const struct operands *operands, uint64_t *before);

#endif
