/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DM - device memory: memory that belongs to the adapter, and is reached through verbs only.
 *
 * An adapter of software has no memory of its own: this is the process's, handed out within the
 * limit that the device reports. It lies in the file of the context's cmd_fd, at a place that its handle
 * gives, so that another process can import it; the child of a fork shares it with its parent.
 */
#ifndef OBJECT_DM_H
#define OBJECT_DM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/live_object.h"

struct context;

#define DM_BYTES_MAX     (16u << 20) /* of all device memory of a context */
#define DM_ALIGNMENT     4           /* of offsets and lengths in copies */
#define DM_LOG_ALIGN_MAX 21          /* of log_align_req */
#define DM_FILE_START    (2l << 20)  /* in the file; then DM_BYTES_MAX for each handle */

struct dm {
	struct ibv_dm ib;
	struct context *context;
	char *memory;             /* whole pages of its own */
	size_t length;            /* as asked for */
	size_t mapped;            /* bytes behind memory */
	struct dm *home;          /* of an import: what it stands for; else NULL */
	int file;                 /* where it lies, the context's cmd_fd; -1: in no file */
	bool imported;            /* from another process */
	uint32_t epoch;           /* key_epoch at creation: who it belongs to */
	_Atomic uint32_t imports; /* EBUSY while not 0 */
	_Atomic uint32_t regions; /* EBUSY while not 0 */
	struct live_object live;
};

static inline struct dm *dm_of(struct ibv_dm *ib)
{
	return (struct dm *)ib;
}

/*
 * Zeroed memory, in `file` if that has a place for it and is not -1. 0, or with a cause reported:
 * -EINVAL (alignment, length 0), -ENOMEM (also: limit).
 */
int dm_create(struct context *context, size_t length, uint32_t log_align, int file, struct dm **out);
/* The device memory with this handle, of any context of this process; NULL. */
struct dm *dm_find(uint32_t handle);
/* Another struct for the same memory. 0, -ENOMEM. */
int dm_import(struct dm *home, struct context *context, struct dm **out);
/* What another process has there, `length` bytes: 0, -EINVAL (there is nothing), -ENOMEM. */
int dm_import_file(struct context *context, int file, uint32_t handle, size_t length,
		   struct dm **out);
int dm_destroy(struct dm *dm); /* 0, -EBUSY with a cause reported */

/* [offset, offset + length) lies in it. */
static inline int dm_has_range(const struct dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

#endif
