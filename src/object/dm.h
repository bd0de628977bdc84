/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DM - device memory (ibv_alloc_dm), which programs reach through verbs only.
 *
 * It is memory of the process, within the limit that the device reports. It lies in the file of the
 * context's cmd_fd, at an offset that its handle determines, so that another process can import it.
 * The child of a fork shares it with its parent. Any thread.
 */
#ifndef OBJECT_DM_H
#define OBJECT_DM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/live_object.h"

struct context;

#define DM_BYTES_MAX	 (16u << 20) /* all device memory of a context */
#define DM_ALIGNMENT	 4	     /* bytes; of offsets and lengths in copies */
#define DM_LOG_ALIGN_MAX 21	     /* log_align_req: 2 MiB */
#define DM_FILE_START	 (2l << 20)  /* offset; from there each handle has DM_BYTES_MAX */

struct dm {
	struct ibv_dm ib;
	struct context *context;
	char *memory;		  /* whole pages */
	size_t length;		  /* bytes that the program asked for */
	size_t mapped;		  /* bytes that are mapped */
	struct dm *home;	  /* the original of an import within the process; else NULL */
	int file;		  /* the context's cmd_fd; -1: anonymous memory */
	bool imported;		  /* from another process */
	uint32_t epoch;		  /* key_epoch at creation: tells parent from child after a fork */
	_Atomic uint32_t imports; /* EBUSY while not 0 */
	_Atomic uint32_t regions; /* EBUSY while not 0 */
	struct live_object live;
};

static inline struct dm *dm_of(struct ibv_dm *ib)
{
	return (struct dm *)ib;
}

/*
 * Creates zeroed device memory, in `file` if that is not -1 and long enough. 0, -EINVAL (alignment,
 * length 0) or -ENOMEM (memory or limit), with a cause reported.
 */
int dm_create(struct context *context, size_t length, uint32_t log_align, int file,
	      struct dm **out);
/* The device memory with this handle, of any context of this process; NULL: there is none. */
struct dm *dm_find(uint32_t handle);
/* Creates another struct for the same memory. 0 or -ENOMEM. */
int dm_import(struct dm *home, struct context *context, struct dm **out);
/* Maps device memory of another process, `length` bytes: 0, -EINVAL (there is none), -ENOMEM. */
int dm_import_file(struct context *context, int file, uint32_t handle, size_t length,
		   struct dm **out);
int dm_destroy(struct dm *dm); /* 0, -EBUSY with a cause reported */

/* Whether [offset, offset + length) lies in the device memory. */
static inline int dm_has_range(const struct dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

#endif
