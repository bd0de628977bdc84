/*
 * Dma-buf - memory that another driver shares by a descriptor: mapped, so that it can be registered.
 *
 * In:  a descriptor, a range of what is behind it.
 * Out: where the range is in this process, for as long as it is mapped.
 *
 * Any thread; may sleep in the driver that owns the memory.
 */
#ifndef MEMORY_DMABUF_H
#define MEMORY_DMABUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dmabuf {
	int fd;	      /* a duplicate, for telling the driver who is at it; -1: no dma-buf */
	char *start;  /* whole pages */
	size_t mapped;
	char *range;  /* what was asked for, within */
};

/*
 * 0, or with a cause reported: -EBADF, -EINVAL (it is none, or shorter), -ENOMEM, -EOPNOTSUPP (its driver
 * lets no process map it, or not so that the kernel can copy there).
 */
int dmabuf_map(int fd, uint64_t offset, size_t length, bool writable, struct dmabuf *dmabuf);
void dmabuf_unmap(struct dmabuf *dmabuf);

#endif
