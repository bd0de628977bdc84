/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include "adapter/adapter.h"
#include "base/uncancelled.h"
#include "memory/hazard.h"
#include "memory/pin.h"
#include "object/context.h"
#include "object/mr.h"
#include "verbs/export.h"
#include "verbs/error.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* NULL and errno for a PD from before a fork, whose adapter is the parent's. */
static struct pd *own_pd(struct ibv_pd *pd)
{
	if (!adapter_is_foreign(context_of(pd->context)))
		return pd_of(pd);
	error_report(EINVAL, CAUSE_OTHER_PROCESS, "PD %u", pd->handle);
	return NULL;
}

static struct ibv_mr *create(const struct mr_spec *spec)
{
	struct mr *mr;

	if (!spec->pd || error_from(mr_create(spec, &mr)) != 0)
		return NULL;
	live_object_add(&mr->live, mr->ib.handle);
	return &mr->ib;
}

VERBS_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					     uint64_t iova, unsigned int access)
{
	UNCANCELLED;
	const struct mr_spec spec = {
		.pd = own_pd(pd),
		.addr = addr,
		.length = length,
		.iova = iova,
		.access = access,
	};

	return create(&spec);
}

VERBS_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					    uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

VERBS_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

VERBS_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					      uint64_t iova, int fd, int access)
{
	UNCANCELLED;
	struct dmabuf dmabuf;
	struct mr_spec spec = {
		.pd = own_pd(pd),
		.length = length,
		.iova = iova,
		.access = (uint32_t)access,
		.dmabuf = &dmabuf,
		.offset = offset,
	};
	struct ibv_mr *mr;

	if (!spec.pd || error_from(dmabuf_map(fd, offset, length, access & WRITES, &dmabuf)) != 0)
		return NULL;
	spec.addr = dmabuf.range;
	mr = create(&spec);
	if (!mr)
		dmabuf_unmap(&dmabuf);
	return mr;
}

struct ibv_mr *verbs_alloc_null_mr(struct ibv_pd *pd)
{
	UNCANCELLED;
	const struct mr_spec spec = {
		.pd = own_pd(pd),
		.length = SIZE_MAX,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.null = true,
	};

	return create(&spec);
}

/* The checks of rdma-core itself. check_rereg_command has those that it leaves to the kernel. */
static int check_rereg(int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_rereg_mr flags 0x%x", flags);
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!length || !addr))
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
				    "ibv_rereg_mr with addr %p, length %zu", addr, length);
	if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
				    "ibv_rereg_mr with access 0x%x but not its flag", access);
	if ((flags & IBV_REREG_MR_CHANGE_PD) && !pd)
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "ibv_rereg_mr with no PD");
	return 0;
}

static int check_rereg_command(struct ibv_mr *mr, int flags, struct ibv_pd *pd)
{
	if (!live_object_exists(&mr_of(mr)->live, &mr->handle))
		return error_unknown_object("ibv_rereg_mr");
	if (!flags)
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_rereg_mr without flags");
	if ((flags & IBV_REREG_MR_CHANGE_PD) && pd->context != mr->context)
		return error_report(EINVAL, CAUSE_OTHER_CONTEXT, "ibv_rereg_mr");
	return 0;
}

VERBS_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			      size_t length, int access)
{
	UNCANCELLED;

	if (check_rereg(flags, pd, addr, length, access) != 0)
		return IBV_REREG_MR_ERR_INPUT;
	if (check_rereg_command(mr, flags, pd) != 0)
		return IBV_REREG_MR_ERR_CMD;
	if (!mr_can_change(mr_of(mr))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (error_from(mr_change(mr_of(mr), flags, pd ? pd_of(pd) : NULL, addr, length, access)) !=
	    0)
		return IBV_REREG_MR_ERR_CMD;
	return 0;
}

VERBS_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	UNCANCELLED;
	int error;

	if (!live_object_remove(&mr_of(mr)->live, &mr->handle))
		return error_unknown_object("ibv_dereg_mr");
	error = error_from(mr_destroy(mr_of(mr)));
	if (error)
		live_object_add(&mr_of(mr)->live, mr->handle);
	return error;
}

/* Looks up one range of ibv_advise_mr, under the hazard of its key. 0 and the address, or errno. */
static int find_range(struct ibv_pd *pd, const struct ibv_sge *sge, bool writable, uint64_t *host)
{
	uint32_t access = writable ? IBV_ACCESS_LOCAL_WRITE : 0, flags = 0;
	enum key_verdict verdict;
	int error = EFAULT;

	verdict = key_check(key_table(), sge->lkey, pd_of(pd)->number, 0, sge->addr, sge->length,
			    access, host, &flags);
	if (verdict == KEY_OK && (flags & KEY_ON_DEMAND))
		return 0;
	if (verdict == KEY_OK)
		return error_report(EINVAL, CAUSE_ACCESS_UNSUPPORTED,
				    "ibv_advise_mr: lkey 0x%08x is not IBV_ACCESS_ON_DEMAND",
				    sge->lkey);
	if (verdict == KEY_BAD_PD || verdict == KEY_BAD_ACCESS)
		error = EPERM;
	return error_report(error, key_cause_local(verdict),
			    "ibv_advise_mr: lkey 0x%08x, addr 0x%lx, "
			    "length %u",
			    sge->lkey, sge->addr, sge->length);
}

static int prefetch(struct ibv_pd *pd, const struct ibv_sge *sge, bool writable, bool populate)
{
	struct arena_hazard *hazard;
	uint64_t host = 0;
	int error;

	hazard = hazard_set(adapter_slot(), sge->lkey);
	error = find_range(pd, sge, writable, &host);
	if (!error && populate && pin_range((void *)(uintptr_t)host, sge->length, writable) < 0)
		error = error_report(EFAULT, CAUSE_ADDRESS_NOT_MAPPED,
				     "ibv_advise_mr: addr 0x%lx, length %u", sge->addr,
				     sge->length);
	hazard_clear(hazard);
	return error;
}

int verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		    struct ibv_sge *sg_list, uint32_t num_sges)
{
	UNCANCELLED;
	bool writable = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	bool populate = advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;

	if (!own_pd(pd))
		return EINVAL;
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && !writable && populate)
		return error_report(ENOTSUP, CAUSE_ARGUMENT_INVALID, "ibv_advise_mr: advice %d",
				    advice);
	if (flags & ~IBV_ADVISE_MR_FLAG_FLUSH)
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_advise_mr: flags 0x%x",
				    flags);
	if (num_sges == 0)
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "ibv_advise_mr: no range");
	for (uint32_t i = 0; i < num_sges; i++) {
		int error = prefetch(pd, &sg_list[i], writable, populate);

		if (error)
			return error;
	}
	return 0;
}
