/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that the library allocates for regions, and registration by a struct: ibv_alloc_buf(3) and
 * ibv_reg_mr_ex, of IBVERBS_1.15 to 1.18, which headers at build time may lack.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "adapter/adapter.h"
#include "base/compat.h"
#include "base/uncancelled.h"
#include "object/pd.h"
#include "verbs/error.h"
#include "verbs/export.h"

struct ibv_mr_init_attr;

/* Opaque to programs. Whole pages, which a region shares with nothing else. */
struct ibv_buf {
	struct ibv_pd *pd;
	void *addr;
	size_t size; /* as asked for */
};

VERBS_EXPORT void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
VERBS_EXPORT void ibv_free_buf(struct ibv_buf *buf);
VERBS_EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
					   size_t length, int access);
VERBS_EXPORT int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
VERBS_EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *init_attr);

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	UNCANCELLED;
	struct ibv_buf *made;

	if (!size) {
		error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "ibv_alloc_buf of 0 bytes");
		return NULL;
	}
	made = malloc(sizeof(*made));
	if (!made)
		goto no_memory;
	made->addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made->addr == MAP_FAILED)
		goto free_made;
	made->pd = pd;
	made->size = size;
	*buf = made;
	return made->addr;

free_made:
	free(made);
no_memory:
	error_report(ENOMEM, CAUSE_MEMORY_EXHAUSTED, "ibv_alloc_buf of %zu bytes", size);
	return NULL;
}

void ibv_free_buf(struct ibv_buf *buf)
{
	UNCANCELLED;

	if (!buf)
		return;
	munmap(buf->addr, buf->size);
	free(buf);
}

/* Whether the range lies in the buffer, and the PD is the one of ibv_alloc_buf. 0, or errno. */
static int check_buf(struct ibv_pd *pd, const struct ibv_buf *buf, void *addr, size_t length)
{
	uintptr_t offset = (uintptr_t)addr - (uintptr_t)buf->addr;

	if (pd != buf->pd)
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "a buffer of another PD");
	if (offset > buf->size || length > buf->size - offset)
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
				    "%zu bytes at %p of a buffer of %zu bytes at %p", length, addr,
				    buf->size, buf->addr);
	return 0;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	if (check_buf(pd, buf, addr, length) != 0)
		return NULL;
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

/* No buffer is a dma-buf: those are for devices that cannot reach a guest's own memory. */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	errno = ENODATA;
	return -1;
}

#define KNOWN                                                                                      \
	(COMPAT_REG_MR_IOVA | COMPAT_REG_MR_ADDR | COMPAT_REG_MR_FD | COMPAT_REG_MR_FD_OFFSET |    \
	 COMPAT_REG_MR_BUF)

/* Which members go with one another, by the manual page. 0, or errno. */
static int check_init_attr(struct ibv_pd *pd, const struct compat_mr_init_attr *attr)
{
	uint64_t mask = attr->comp_mask;
	bool by_fd = mask & COMPAT_REG_MR_FD;

	if (mask & ~(uint64_t)KNOWN) /* DMA handles too: there is no TLP to hint at */
		return error_report(EOPNOTSUPP, CAUSE_FLAGS_UNKNOWN,
				    "ibv_reg_mr_ex comp_mask 0x%llx", (unsigned long long)mask);
	if (by_fd == !!(mask & COMPAT_REG_MR_ADDR))
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
				    "ibv_reg_mr_ex needs an address or a descriptor");
	if (!by_fd && (mask & COMPAT_REG_MR_FD_OFFSET))
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
				    "ibv_reg_mr_ex with an offset but no descriptor");
	if (!(mask & COMPAT_REG_MR_BUF))
		return 0;
	if (by_fd)
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
				    "ibv_reg_mr_ex with a buffer and a descriptor");
	return check_buf(pd, attr->buf, attr->addr, attr->length);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *init_attr)
{
	const struct compat_mr_init_attr *attr = (const struct compat_mr_init_attr *)init_attr;
	uint64_t iova, offset;

	if (check_init_attr(pd, attr) != 0)
		return NULL;
	if (!(attr->comp_mask & COMPAT_REG_MR_FD)) {
		iova = attr->comp_mask & COMPAT_REG_MR_IOVA ? attr->iova : (uintptr_t)attr->addr;
		return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova,
					(unsigned int)attr->access);
	}
	offset = attr->comp_mask & COMPAT_REG_MR_FD_OFFSET ? attr->fd_offset : 0;
	iova = attr->comp_mask & COMPAT_REG_MR_IOVA ? attr->iova : offset;
	return ibv_reg_dmabuf_mr(pd, offset, attr->length, iova, attr->fd, attr->access);
}
