/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dma-buf - maps memory that another driver shares by a descriptor, so that it can be registered.
 *
 * In:  a descriptor of a dma-buf, and a range of its bytes.
 * Out: the range's address in this process, as long as it is mapped.
 *
 * Any thread; may sleep in the driver that owns the memory.
 */
#ifndef MEMORY_DMABUF_H
#define MEMORY_DMABUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dmabuf {
	int fd;	     /* a duplicate, for DMA_BUF_IOCTL_SYNC; -1: no dma-buf */
	char *start; /* whole pages */
	size_t mapped;
	char *range; /* the range, within these pages */
};

/*
 * 0, or with a cause reported: -EBADF, -EINVAL (no dma-buf, or shorter), -ENOMEM, -EOPNOTSUPP (its
 * driver lets no process map it, or not so that the kernel can copy there).
 */
int dmabuf_map(int fd, uint64_t offset, size_t length, bool writable, struct dmabuf *dmabuf);
void dmabuf_unmap(struct dmabuf *dmabuf);

#endif
