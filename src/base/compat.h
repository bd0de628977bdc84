/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compat - compatibility with newer headers: names that rdma-core got after version 44.
 *
 * The headers at build time may not have them, and those that a program is built with need not be
 * the same. Numbers and places are part of the ABI, and never change (<infiniband/verbs.h> of
 * rdma-core 45 and later); structs only grow at one end. So a build with any headers serves
 * programs that were built with any others.
 */
#ifndef BASE_COMPAT_H
#define BASE_COMPAT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

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

/* of ibv_device_attr_ex.odp_caps.per_transport_caps (rdma-core 65) */
#define COMPAT_ODP_FLUSH	(1 << 6)
#define COMPAT_ODP_ATOMIC_WRITE (1 << 7)

/*
 * struct ibv_qp_ex with what it has got since, whose place is counted from the last member that all
 * headers have.
 */
struct compat_qp_ex {
	char as_of_44[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void))];
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
			 uint8_t type, uint8_t level);
	void *later[3]; /* NULL, for headers that are still newer */
};

/* struct ibv_mr_init_attr, of ibv_reg_mr_ex (rdma-core 59; `buf` 64), and the bits of its comp_mask
 */
struct compat_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};
#define COMPAT_REG_MR_IOVA	(1 << 0)
#define COMPAT_REG_MR_ADDR	(1 << 1)
#define COMPAT_REG_MR_FD	(1 << 2)
#define COMPAT_REG_MR_FD_OFFSET (1 << 3)
#define COMPAT_REG_MR_BUF	(1 << 5)

/* of ibv_parent_domain_init_attr.comp_mask (rdma-core 64): memory that a DMA-bounce device needs */
#define COMPAT_PARENT_DOMAIN_UNPROTECTED (1 << 2)

/*
 * The ops that rdma-core 65 has before query_port, which once was the first in struct
 * verbs_context: free_buf, alloc_buf, dm_export_dmabuf_fd, reg_mr_ex, dealloc_dmah, alloc_dmah.
 * COMPAT_OPS_MISSING are those that the headers at hand lack.
 */
#define COMPAT_NEWER_OPS    6
#define COMPAT_OPS_DECLARED (offsetof(struct verbs_context, query_port) / sizeof(void *))
#define COMPAT_OPS_MISSING                                                                         \
	(COMPAT_OPS_DECLARED < COMPAT_NEWER_OPS ? COMPAT_NEWER_OPS - COMPAT_OPS_DECLARED : 0)

#endif
