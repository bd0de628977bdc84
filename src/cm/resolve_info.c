/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of RDMACM_1.4: rdma_resolve_addrinfo and rdma_write_cm_event. The headers of the
 * build may have neither.
 */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "cm/export.h"
#include "cm/id.h"
#include "cm/sync.h"

#define RAI_SA	0x00000010
#define RAI_DNS 0x00000020

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* Stores `in`, and returns the old value. */
static struct rdma_addrinfo *exchange(struct id *id, struct rdma_addrinfo *in)
{
	struct rdma_addrinfo *before;

	pthread_mutex_lock(&id->lock);
	before = id->resolved;
	id->resolved = in;
	pthread_mutex_unlock(&id->lock);
	return before;
}

/* 0, EAI_* or -errno, as an event says it. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo **out)
{
	struct rdma_addrinfo wanted = hints ? *hints : (struct rdma_addrinfo){ .ai_flags = 0 };
	int rc;

	wanted.ai_flags &= ~RAI_DNS;
	rc = rdma_getaddrinfo(node, service, &wanted, out);
	return rc == EAI_SYSTEM || (rc == -1 && errno == EINVAL) ? -errno : rc;
}

/* Waits for the name server, so the event is there when this returns. */
CM_EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *base, const char *node, const char *service,
				    const struct rdma_addrinfo *hints)
{
	int flags = hints ? hints->ai_flags : 0, status, rc;
	struct rdma_addrinfo *found = NULL;
	struct id *id = id_of(base), *waiting = sync_begin(id);

	if ((!node && !service) || (flags & RAI_SA && flags & RAI_DNS))
		return answer(-EINVAL);
	/* There is no subnet administrator to ask. */
	if (flags & RAI_SA)
		return answer(-EOPNOTSUPP);
	status = look_up(node, service, hints, &found);
	rdma_freeaddrinfo(exchange(id, found));
	rc = id_raise_event(id,
			    (enum rdma_cm_event_type)(status ? CTL_CM_ADDRINFO_ERROR
							     : CTL_CM_ADDRINFO_RESOLVED),
			    status, 0);
	if (rc)
		rdma_freeaddrinfo(exchange(id, NULL));
	return rc ? answer(rc) : sync_complete(waiting);
}

CM_EXPORT int rdma_query_addrinfo(struct rdma_cm_id *base, struct rdma_addrinfo **info)
{
	struct rdma_addrinfo *found = exchange(id_of(base), NULL);

	if (!found)
		return answer(-EINVAL);
	*info = found;
	return 0;
}

CM_EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
				  uint64_t arg)
{
	if ((int)event != CTL_CM_USER && (int)event != CTL_CM_INTERNAL)
		return answer(-EINVAL);
	return answer(id_raise_event(id_of(id), event, status, arg));
}
