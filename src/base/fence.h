/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fence - full barriers beside atomic instructions.
 *
 * An atomic read-modify-write of x86 is a full barrier. That of arm64 need not be one: its load is
 * an acquire and its store a release, so a later load may pass the store. Where the code relies on
 * more, one of these stands beside the instruction. On x86 they only keep the compiler from moving
 * accesses. See docs/design/memory-order.md.
 */
#ifndef BASE_FENCE_H
#define BASE_FENCE_H

#include <stdatomic.h>

/* Accesses after it come after the atomic instruction before it, and after all before that. */
static inline void fence_after_atomic(void)
{
#if defined(__x86_64__) || defined(__i386__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Accesses before it come before the atomic instruction after it, and before all after that. */
static inline void fence_before_atomic(void)
{
	fence_after_atomic();
}

#endif
