/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compat - compatibility with newer headers: names that rdma-core got after version 44.
 *
 * The headers at build time may not have them. Their numbers are part of the ABI, and never change
 * (<infiniband/verbs.h> of rdma-core 45).
 */
#ifndef BASE_COMPAT_H
#define BASE_COMPAT_H

#define COMPAT_WR_FLUSH		       14 /* enum ibv_wr_opcode */
#define COMPAT_WC_FLUSH		       8  /* enum ibv_wc_opcode */
#define COMPAT_QP_EX_WITH_FLUSH	       (1 << 11)
#define COMPAT_ACCESS_FLUSH_GLOBAL     (1 << 8)
#define COMPAT_ACCESS_FLUSH_PERSISTENT (1 << 9)

/* enum ibv_placement_type (bits) and enum ibv_selectivity_level, also of a FETH (IBA 9.4.4.2) */
#define COMPAT_FLUSH_GLOBAL	1
#define COMPAT_FLUSH_PERSISTENT 2
#define COMPAT_FLUSH_RANGE	0
#define COMPAT_FLUSH_MR		1

/* of ibv_device_attr_ex.device_cap_flags_ex */
#define COMPAT_DEVICE_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define COMPAT_DEVICE_ATOMIC_WRITE (UINT64_C(1) << 40)

#endif
