/*
 * Newer - names of rdma-core after version 44, which the headers at build time may not have.
 *
 * Their numbers are part of the ABI, and never change (<infiniband/verbs.h> of rdma-core 45).
 */
#ifndef BASE_NEWER_H
#define BASE_NEWER_H

#define NEWER_WR_FLUSH		     14 /* enum ibv_wr_opcode */
#define NEWER_WC_FLUSH		     8	/* enum ibv_wc_opcode */
#define NEWER_QP_EX_WITH_FLUSH	     (1 << 11)
#define NEWER_ACCESS_FLUSH_GLOBAL     (1 << 8)
#define NEWER_ACCESS_FLUSH_PERSISTENT (1 << 9)

/* enum ibv_placement_type, bits; and enum ibv_selectivity_level: also those of a FETH (IBA 9.4.4.2) */
#define NEWER_FLUSH_GLOBAL     1
#define NEWER_FLUSH_PERSISTENT 2
#define NEWER_FLUSH_RANGE      0
#define NEWER_FLUSH_MR	       1

/* of ibv_device_attr_ex.device_cap_flags_ex */
#define NEWER_DEVICE_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define NEWER_DEVICE_ATOMIC_WRITE (UINT64_C(1) << 40)

#endif
