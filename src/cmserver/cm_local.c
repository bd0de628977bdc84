/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_local.h"

#include <stdlib.h>
#include <string.h>

void cm_local_send(struct list *queue, uid_t uid, uint32_t session,
		   const uint8_t from[CTL_GID_BYTES], const uint8_t to[CTL_GID_BYTES],
		   uint32_t ifindex, const struct ibcm_message *m)
{
	struct cm_local_message *l = malloc(sizeof(*l));

	if (!l)
		return;
	l->uid = uid;
	l->session = session;
	memcpy(l->from, from, sizeof(l->from));
	memcpy(l->to, to, sizeof(l->to));
	l->ifindex = ifindex;
	l->message = *m;
	list_add_tail(queue, &l->in_queue);
}

struct cm_local_message *cm_local_take(struct list *queue)
{
	struct cm_local_message *l;

	if (list_empty(queue))
		return NULL;
	l = container_of(queue->next, struct cm_local_message, in_queue);
	list_del(&l->in_queue);
	return l;
}

void cm_local_drop_all(struct list *queue)
{
	struct cm_local_message *l;

	while ((l = cm_local_take(queue)))
		free(l);
}
