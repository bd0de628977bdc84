/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cause.h"
#include "memory/memory.h"
#include "object/context.h"
#include "object/handles.h"
#include "object/qp_table.h"

struct xrc_domain {
	struct list link; /* in `domains`; `lock` guards all fields */
	uint32_t references;
	struct device *device;
	bool has_file;
	dev_t dev;
	ino_t ino;
};

static struct lock lock = LOCK_INITIALIZER;
static struct list domains GUARDED_BY(lock) = { &domains, &domains };
static struct handles srqs; /* XRC SRQs by place, the lower bits of their numbers */

static struct xrc_domain *find(struct device *device, const struct stat *file) REQUIRES(lock)
{
	struct list *pos;

	list_for_each(pos, &domains) {
		struct xrc_domain *domain = list_entry(pos, struct xrc_domain, link);

		if (domain->has_file && domain->device == device && domain->dev == file->st_dev &&
		    domain->ino == file->st_ino)
			return domain;
	}
	return NULL;
}

/* Finds or creates the domain, and takes a reference; NULL and *error. */
static struct xrc_domain *join(struct device *device, const struct stat *file, int flags,
			       int *error) REQUIRES(lock)
{
	struct xrc_domain *domain = file ? find(device, file) : NULL;

	if (domain && flags & O_EXCL) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "XRC domain: O_EXCL, and there is one");
		*error = -EINVAL;
		return NULL;
	}
	if (!domain && file && !(flags & O_CREAT)) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0,
			     "XRC domain: no O_CREAT, and there is none");
		*error = -EAGAIN;
		return NULL;
	}
	if (!domain) {
		domain = calloc(1, sizeof(*domain));
		if (!domain) {
			cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "XRC domain");
			*error = -ENOMEM;
			return NULL;
		}
		domain->device = device;
		domain->has_file = file;
		if (file) {
			domain->dev = file->st_dev;
			domain->ino = file->st_ino;
		}
		list_add_tail(&domains, &domain->link);
	}
	domain->references++;
	return domain;
}

int xrcd_open(struct context *context, int fd, int flags, struct xrcd **out)
{
	struct xrcd *xrcd = calloc(1, sizeof(*xrcd));
	struct stat file;
	int error = 0;

	if (!xrcd) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "XRC domain");
		return -ENOMEM;
	}
	if (fd != -1 && fstat(fd, &file) < 0) {
		error = -errno;
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "XRC domain: descriptor %d", fd);
		free(xrcd);
		return error;
	}
	lock_acquire(&lock);
	xrcd->domain = join(context->device, fd == -1 ? NULL : &file, flags, &error);
	lock_release(&lock);
	if (!xrcd->domain) {
		free(xrcd);
		return error;
	}
	xrcd->ib.context = &context->verbs.context;
	*out = xrcd;
	return 0;
}

int xrcd_close(struct xrcd *xrcd)
{
	uint32_t users = atomic_load(&xrcd->users);

	if (users) {
		cause_report(CAUSE_BUSY_XRCD, 0, "%u", users);
		return -EBUSY;
	}
	xrc_domain_put(xrcd->domain);
	free(xrcd);
	return 0;
}

void xrc_domain_get(struct xrc_domain *domain)
{
	lock_acquire(&lock);
	domain->references++;
	lock_release(&lock);
}

void xrc_domain_put(struct xrc_domain *domain)
{
	bool last;

	lock_acquire(&lock);
	last = --domain->references == 0;
	if (last)
		list_del(&domain->link);
	lock_release(&lock);
	if (last)
		free(domain);
}

void xrc_reset_after_fork(void)
{
	struct list *pos, *after;

	lock_acquire_in_child(&lock);
	/* so that a later list_del of a parent's domain does not change the child's list */
	list_for_each_safe(pos, after, &domains)
		list_init(pos);
	list_init(&domains);
	memset(&srqs, 0, sizeof(srqs));
	lock_release(&lock);
}

int xrc_add_srq(struct xrcd *xrcd, struct srq *srq, struct cq *cq)
{
	uint32_t place;

	srq->xrcd = xrcd;
	srq->domain = xrcd->domain;
	srq->cq = cq;
	place = handles_add(&srqs, srq, XRC_PLACES);
	if (!place) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "%u XRC SRQs", XRC_PLACES - 1);
		return -ENOMEM;
	}
	srq->type = IBV_SRQT_XRC;
	srq->number = memory_slot() << XRC_PLACE_BITS | place;
	atomic_fetch_add(&xrcd->users, 1);
	atomic_fetch_add(&cq->users, 1);
	return 0;
}

/* Fails a QP in the middle of a message for the SRQ `arg`, and detaches it. */
static bool detach_srq(struct qp *qp, void *arg) REQUIRES(qp->lock)
{
	if (qp->type != IBV_QPT_XRC_RECV || qp->srq != arg)
		return true;
	if (qp->has_receive)
		qp_enter_error(qp, CAUSE_XRC_SRQ_UNKNOWN);
	qp->srq = NULL;
	qp->rq = &qp->own_rq;
	qp->recv_cq = NULL;
	return true;
}

static void remove_srq(struct srq *srq)
{
	uint32_t place = srq->number & (XRC_PLACES - 1);

	if (handles_find(&srqs, place) == srq)
		handles_remove(&srqs, place);
	/*
	 * Lookups no longer find the SRQ. A thread that has found it holds a QP's lock, which
	 * qp_visit takes.
	 */
	qp_visit(detach_srq, srq);
	cq_forget_queue(srq->cq, &srq->rq);
	atomic_fetch_sub(&srq->cq->users, 1);
	atomic_fetch_sub(&srq->xrcd->users, 1);
}

int xrc_destroy_srq(struct srq *srq)
{
	remove_srq(srq);
	return srq_destroy(srq);
}

/* The SRQ exists while the QP is locked: see remove_srq. */
static struct srq *find_srq(const struct qp *qp, uint32_t srqn)
{
	struct srq *srq = srqn >> XRC_PLACE_BITS == memory_slot()
				  ? handles_find(&srqs, srqn & (XRC_PLACES - 1))
				  : NULL;

	return srq && srq->domain == qp->domain ? srq : NULL;
}

bool xrc_find_pd(const struct qp *qp, uint32_t srqn, uint32_t *pd)
{
	struct srq *srq = find_srq(qp, srqn);

	if (srq)
		*pd = srq->pd->number;
	return srq;
}

bool xrc_select(struct qp *qp, uint32_t srqn)
{
	struct srq *srq = find_srq(qp, srqn);

	if (!srq || (qp->has_receive && qp->srq != srq))
		return false;
	qp->srq = srq;
	qp->rq = &srq->rq;
	qp->recv_cq = srq->cq;
	qp->remote_pd = srq->pd->number;
	return true;
}
