#include "object/dm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cause.h"
#include "object/context.h"
#include "object/handles.h"

static struct handles handles;

/* Pages at a multiple of `align`, which is a page or more. */
static void *map_aligned(size_t bytes, size_t align)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t spare = align > page ? align : 0;
	char *start, *aligned;

	start =
	    mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		return NULL;
	if (!spare)
		return start;
	aligned = (char *)(((uintptr_t)start + align - 1) & ~(align - 1));
	if (aligned > start)
		munmap(start, aligned - start);
	if (aligned + bytes < start + bytes + spare)
		munmap(aligned + bytes, start + spare - aligned);
	return aligned;
}

int dm_create(struct context *context, size_t length, uint32_t log_align, struct dm **out)
{
	size_t page = sysconf(_SC_PAGESIZE);
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
	dm->mapped = (length + page - 1) & ~(page - 1);
	dm->memory = map_aligned(dm->mapped, (size_t)1 << log_align);
	if (!dm->memory)
		goto free_dm;
	dm->ib.context = &context->verbs.context;
	dm->context = context;
	dm->length = length;
	dm->ib.comp_mask = IBV_DM_MASK_HANDLE;
	dm->ib.handle = handles_add(&handles, dm, HANDLES);
	if (!dm->ib.handle)
		goto unmap;
	*out = dm;
	return 0;

unmap:
	munmap(dm->memory, dm->mapped);
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
	atomic_fetch_add(&home->imports, 1);
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
	handles_remove(&handles, dm->ib.handle);
	atomic_fetch_sub(&dm->context->dm_bytes, dm->length);
	munmap(dm->memory, dm->mapped);
	free(dm);
	return 0;
}
