/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/dm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/memory_file.h"
#include "base/page.h"
#include "object/context.h"
#include "object/handles.h"
#include "memory/key.h"

static struct handles handles;

static off_t file_offset(uint32_t handle)
{
	return DM_FILE_START + (off_t)handle * DM_BYTES_MAX;
}

/* The file must be sealed: a process that truncated it would cause SIGBUS in those that map it. */
static bool has_place(int file, off_t offset, size_t bytes)
{
	struct stat status;

	return memory_file_has_seals(file, F_SEAL_SHRINK) && !fstat(file, &status) &&
	       offset + (off_t)bytes <= status.st_size;
}

/* Maps pages at a multiple of `align`, which is a page or more; anonymous if `file` is -1. */
static void *map_aligned(size_t bytes, size_t align, int file, off_t offset)
{
	size_t page = page_bytes();
	size_t spare = align > page ? align : 0;
	int how = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	char *start, *aligned;

	start = mmap(NULL, bytes + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	if (start == MAP_FAILED)
		return NULL;
	aligned = spare ? (char *)(((uintptr_t)start + align - 1) & ~(align - 1)) : start;
	if (aligned > start)
		munmap(start, aligned - start);
	if (aligned + bytes < start + bytes + spare)
		munmap(aligned + bytes, start + spare - aligned);
	if (mmap(aligned, bytes, PROT_READ | PROT_WRITE, how | MAP_FIXED, file,
		 file < 0 ? 0 : offset) != MAP_FAILED)
		return aligned;
	munmap(aligned, bytes);
	return NULL;
}

/* Zeroes the place for the next device memory of this handle. Not in the child of a fork. */
static void clear_file(const struct dm *dm)
{
	if (dm->file >= 0 && !dm->imported && dm->epoch == key_epoch())
		fallocate(dm->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  file_offset(dm->ib.handle), (off_t)dm->mapped);
}

int dm_create(struct context *context, size_t length, uint32_t log_align, int file, struct dm **out)
{
	struct dm *dm;
	uint64_t used;

	if (length == 0 || log_align > DM_LOG_ALIGN_MAX) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "length %zu, log_align_req %u", length,
			     log_align);
		return -EINVAL;
	}
	if (length > DM_BYTES_MAX)
		goto limit;
	used = atomic_fetch_add(&context->dm_bytes, length);
	if (used + length > DM_BYTES_MAX) {
		atomic_fetch_sub(&context->dm_bytes, length);
		goto limit;
	}

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		goto no_memory;
	dm->mapped = page_round_up(length);
	dm->ib.context = &context->verbs.context;
	dm->context = context;
	dm->length = length;
	dm->epoch = key_epoch();
	dm->ib.comp_mask = IBV_DM_MASK_HANDLE;
	dm->ib.handle = handles_add(&handles, dm, HANDLES);
	if (!dm->ib.handle)
		goto free_dm;
	dm->file = has_place(file, file_offset(dm->ib.handle), dm->mapped) ? file : -1;
	dm->memory = map_aligned(dm->mapped, (size_t)1 << log_align, dm->file,
				 file_offset(dm->ib.handle));
	if (!dm->memory)
		goto remove;
	*out = dm;
	return 0;

remove:
	handles_remove(&handles, dm->ib.handle);
free_dm:
	free(dm);
no_memory:
	atomic_fetch_sub(&context->dm_bytes, length);
	cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "%zu bytes of device memory", length);
	return -ENOMEM;
limit:
	cause_report(CAUSE_LIMIT_EXCEEDED, 0, "%zu bytes of device memory, of %u", length,
		     DM_BYTES_MAX);
	return -ENOMEM;
}

struct dm *dm_find(uint32_t handle)
{
	return handles_find(&handles, handle);
}

int dm_import(struct dm *home, struct context *context, struct dm **out)
{
	struct dm *dm = calloc(1, sizeof(*dm));

	if (!dm) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "imported device memory");
		return -ENOMEM;
	}
	dm->ib = home->ib;
	dm->ib.context = &context->verbs.context;
	dm->context = context;
	dm->memory = home->memory;
	dm->length = home->length;
	dm->home = home;
	dm->file = -1;
	atomic_fetch_add(&home->imports, 1);
	*out = dm;
	return 0;
}

int dm_import_file(struct context *context, int file, uint32_t handle, size_t length,
		   struct dm **out)
{
	size_t mapped = page_round_up(length);
	struct dm *dm;

	if (length > DM_BYTES_MAX || !has_place(file, file_offset(handle), mapped)) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "device memory %u of %zu bytes", handle,
			     length);
		return -EINVAL;
	}
	dm = calloc(1, sizeof(*dm));
	if (dm)
		dm->memory = map_aligned(mapped, 1, file, file_offset(handle));
	if (!dm || !dm->memory) {
		free(dm);
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "imported device memory");
		return -ENOMEM;
	}
	dm->ib.context = &context->verbs.context;
	dm->ib.comp_mask = IBV_DM_MASK_HANDLE;
	dm->ib.handle = handle;
	dm->context = context;
	dm->length = length;
	dm->mapped = mapped;
	dm->file = file;
	dm->imported = true;
	*out = dm;
	return 0;
}

int dm_destroy(struct dm *dm)
{
	uint32_t regions = atomic_load(&dm->regions), imports = atomic_load(&dm->imports);

	if (regions || imports) {
		cause_report(CAUSE_BUSY_DM, 0, "%u, and %u imports", regions, imports);
		return -EBUSY;
	}
	if (dm->home) {
		atomic_fetch_sub(&dm->home->imports, 1);
		free(dm);
		return 0;
	}
	munmap(dm->memory, dm->mapped);
	if (!dm->imported) {
		clear_file(dm);
		handles_remove(&handles, dm->ib.handle);
		atomic_fetch_sub(&dm->context->dm_bytes, dm->length);
	}
	free(dm);
	return 0;
}
