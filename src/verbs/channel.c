/* Completion channels: ibv_create_comp_channel(3), ibv_get_cq_event(3). */
#include <errno.h>
#include <infiniband/verbs.h>

#include "object/acknowledge.h"
#include "base/uncancelled.h"
#include "object/channel.h"
#include "object/cq.h"
#include "verbs/export.h"
#include "verbs/refuse.h"

VERBS_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	UNCANCELLED;
	struct channel *channel;
	int error = channel_create(context, &channel);

	if (error) {
		errno = -error;
		return NULL;
	}
	live_object_add(&channel->live, 0);
	return &channel->ib;
}

VERBS_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	UNCANCELLED;
	int error;

	if (!live_object_remove(&channel_of(channel)->live, NULL))
		return refuse_unknown("ibv_destroy_comp_channel");
	error = -channel_destroy(channel_of(channel));
	if (error)
		live_object_add(&channel_of(channel)->live, 0);
	return error;
}

VERBS_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				  void **cq_context)
{
	struct cq *taken;

	if (channel_take(channel_of(channel), &taken))
		return -1;
	*cq = &taken->ib;
	*cq_context = taken->ib.cq_context;
	return 0;
}

VERBS_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (nevents)
		acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}
