/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Imported - memory regions of another process of this host (ibv_import_mr(3)).
 *
 * In:  keys of this process for regions of another process (KEY_IMPORTED).
 * Out: bytes moved between that process's memory and this one's.
 *
 * Such a key is marked as a null MR, too (KEY_NULL), so that no copy takes its memory for this
 * process's. Where a null MR would read as zeroes, copies call these functions. shm/imported.h,
 * above this layer, implements them.
 */
#ifndef MEMORY_IMPORTED_H
#define MEMORY_IMPORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct imported_ops {
	/* Notes the region of the other process (mr_spec.imported), before the key is published. */
	void (*keep)(uint32_t index, const void *region);
	/*
	 * Copies `bytes` between `flat` and `address` of the region of `key`: into the region, or
	 * out of it. 0, or -EFAULT: the region, its memory or its process is gone, or its pages
	 * have been moving for 3 s. The caller has a hazard on the key.
	 */
	int (*copy)(uint32_t key, uint64_t address, void *flat, size_t bytes, bool into);
	/* The key with this index is dead, and no thread has a hazard on it any more. */
	void (*release)(uint32_t index);
};

/* Set once, before the first import. */
extern const struct imported_ops *imported_ops;

#endif
