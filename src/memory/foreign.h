/*
 * Foreign - memory regions of another process of this host, imported (ibv_import_mr(3)).
 *
 * In:  keys of this process that stand for a region of another (KEY_FOREIGN).
 * Out: bytes moved between that process's memory and this one's.
 *
 * Such a key is marked as the null MR's is (KEY_NULL), so that nobody takes its memory for our own; where
 * that would be read as zeroes, these are called. What they do is the local path's business
 * (shm/foreign.h), which is above this layer.
 */
#ifndef MEMORY_FOREIGN_H
#define MEMORY_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct foreign_ops {
	/*
	 * Copies `bytes` between `flat` and `address` of the region behind `key`, into the region or out
	 * of it. 0, or -EFAULT: the region, its memory or its process is gone. The caller holds a hazard on the key.
	 */
	int (*copy)(uint32_t key, uint64_t address, void *flat, size_t bytes, bool into);
	/* The key with this index is dead, and no thread holds a hazard on it any more. */
	void (*release)(uint32_t index);
};

/* Set once, before the first import. */
extern const struct foreign_ops *foreign_ops;

#endif
