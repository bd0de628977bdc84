/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/psn.h"
#include "base/uncancelled.h"
#include "cm/address.h"
#include "cm/iwcm.h"
#include "cm/refusal.h"
#include "cm/session.h"

#define BUCKETS 8192

static struct {
	pthread_mutex_t lock;
	struct id *buckets[BUCKETS];
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void remember(struct id *id)
{
	struct id **bucket = &known.buckets[id->number % BUCKETS];

	pthread_mutex_lock(&known.lock);
	id->next = *bucket;
	*bucket = id;
	pthread_mutex_unlock(&known.lock);
}

static void forget(struct id *id)
{
	struct id **at = &known.buckets[id->number % BUCKETS];

	pthread_mutex_lock(&known.lock);
	while (*at && *at != id)
		at = &(*at)->next;
	if (*at)
		*at = id->next;
	pthread_mutex_unlock(&known.lock);
}

struct id *id_find(uint32_t number)
{
	struct id *id;

	pthread_mutex_lock(&known.lock);
	for (id = known.buckets[number % BUCKETS]; id && id->number != number; id = id->next)
		;
	pthread_mutex_unlock(&known.lock);
	return id;
}

struct id *id_next_lost(const struct channel *ch)
{
	struct id *found = NULL;

	pthread_mutex_lock(&known.lock);
	for (unsigned i = 0; i < BUCKETS && !found; i++) {
		found = known.buckets[i];
		while (found && (found->is_lost || found->channel_serial != ch->serial))
			found = found->next;
	}
	if (found)
		found->is_lost = true;
	pthread_mutex_unlock(&known.lock);
	return found;
}

static pthread_mutex_t delivery = PTHREAD_MUTEX_INITIALIZER;

void id_delivery_begin(void)
{
	pthread_mutex_lock(&delivery);
}

void id_delivery_end(void)
{
	pthread_mutex_unlock(&delivery);
}

/*
 * ------------------------------------------------------------------------------------------
 * Fork: all locks of this library, in the order in which they are taken; the session's is last, and
 * is that of its own handlers, which run within these.
 */

static void before_fork(void)
{
	id_delivery_begin();
	device_before_fork();
	pthread_mutex_lock(&known.lock);
	channel_before_fork();
	iwcm_before_fork();
}

static void after_fork(void)
{
	iwcm_after_fork();
	channel_after_fork();
	pthread_mutex_unlock(&known.lock);
	device_after_fork();
	id_delivery_end();
}

/*
 * The lock of an identifier is held over calls of verbs, whose fork handlers may run before these.
 * So fork does not take it: the child initializes it anew. Its data is consistent at any time.
 * Events that other threads of the parent hold are not acknowledged in the child.
 */
static void after_fork_in_child(void)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct id *id = known.buckets[i]; id; id = id->next) {
			pthread_mutex_init(&id->lock, NULL);
			pthread_cond_init(&id->acked, NULL);
			id->acks = id->events;
		}
	}
	iwcm_after_fork_in_child();
	channel_after_fork();
	pthread_mutex_unlock(&known.lock);
	device_after_fork_in_child();
	id_delivery_end();
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static uint32_t random_psn(void)
{
	uint32_t number = 0;

	/*
	 * Random: a host that foresees the PSN can inject packets into a connection that it does
	 * not see.
	 */
	while (getrandom(&number, sizeof(number), 0) < 0 && errno == EINTR)
		;
	return psn_of(number).number;
}

/* On `channel`, or on a new channel of its own. NULL with errno. */
static struct id *allocate(struct rdma_event_channel *channel, void *context,
			   enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	if (!channel) {
		struct channel *own = channel_create();

		if (!own) {
			free(id);
			return NULL;
		}
		id->is_sync = true;
		channel = &own->base;
	}
	id->base.channel = channel;
	id->channel_serial = channel_of(channel)->serial;
	id->base.context = context;
	id->base.ps = ps;
	id->base.qp_type = type;
	id->psn = random_psn();
	id->responder_resources = RDMA_MAX_RESP_RES;
	id->initiator_depth = RDMA_MAX_INIT_DEPTH;
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->acked, NULL);
	return id;
}

static void release(struct id *id)
{
	if (id->device)
		device_put(id->device);
	if (id->is_sync)
		channel_destroy(channel_of(id->base.channel));
	pthread_cond_destroy(&id->acked);
	pthread_mutex_destroy(&id->lock);
	free(id->base.route.path_rec);
	free(id->qp_init_attr);
	free(id->connect_data);
	rdma_freeaddrinfo(id->resolved);
	free(id);
}

int id_create(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
	      enum ibv_qp_type type, struct id **out)
{
	struct ctl_cm_ask ask = {
		.header = { .type = CTL_CM_CREATE_ID },
		.value = ps,
		.flags = type,
	};
	struct id *id = allocate(channel, context, ps, type);
	int rc;

	if (!id)
		return -errno;
	ask.channel = channel_of(id->base.channel)->number;
	rc = session_ask_plain(&ask, &id->number);
	if (rc && channel_is_gone(channel_of(id->base.channel), rc))
		rc = -ENODEV;
	if (rc) {
		release(id);
		return rc;
	}
	remember(id);
	*out = id;
	return 0;
}

int id_adopt(const struct id *listener, const struct ctl_cm_event *event, struct id **out)
{
	struct id *id = allocate(listener->base.channel, listener->base.context, listener->base.ps,
				 listener->base.qp_type);
	int rc;

	if (!id)
		return -ENOMEM;
	id->number = event->id;
	id->local = event->local;
	id->remote = event->remote;
	id->state = ID_CONNECTING;
	/* The end that connects chooses for both, as in Linux. */
	id->tos = event->end.traffic_class ? event->end.traffic_class : listener->tos;
	rc = id_set_device(id);
	if (rc) {
		release(id);
		return rc;
	}
	remember(id);
	*out = id;
	return 0;
}

/* Ends an identifier that no thread has seen. Within a delivery. */
static void id_forget(struct id *id)
{
	session_destroy_id(id->number);
	forget(id);
	release(id);
}

int id_adopt_iwarp(const struct id *listener, const struct iwcm_event *event, struct id **out)
{
	struct id *id = NULL;
	int rc = id_create(listener->base.channel, listener->base.context, listener->base.ps,
			   listener->base.qp_type, &id);

	if (!id)
		return rc;
	id->local = event->local;
	id->remote = event->remote;
	id->state = ID_CONNECTING;
	id->tos = listener->tos;
	rc = id_set_device(id);
	if (rc) {
		id_forget(id);
		return rc;
	}
	iwcm_adopt(event->asked, id);
	*out = id;
	return 0;
}

void id_hold_event(struct id *id)
{
	pthread_mutex_lock(&id->lock);
	id->events++;
	pthread_mutex_unlock(&id->lock);
}

void id_ack_event(struct id *id)
{
	pthread_mutex_lock(&id->lock);
	/* In the child of a fork the event may be one of the parent's. */
	if (id->acks != id->events) {
		id->acks++;
		pthread_cond_broadcast(&id->acked);
	}
	pthread_mutex_unlock(&id->lock);
}

int id_raise_event(struct id *id, enum rdma_cm_event_type type, int status, uint64_t cookie)
{
	struct ctl_cm_raise ask = {
		.header = { .type = CTL_CM_RAISE },
		.id = id->number,
		.kind = type,
		.status = status,
		.cookie = cookie,
	};
	struct ctl_cm_reply reply;

	return session_ask(&ask.header, sizeof(ask), &reply);
}

/* The events that the program has been given so far. Within a delivery. */
static unsigned count_events(struct id *id)
{
	unsigned events;

	pthread_mutex_lock(&id->lock);
	events = id->events;
	pthread_mutex_unlock(&id->lock);
	return events;
}

/*
 * Waits until so many are acknowledged. A thread that was cancelled while it waits would keep the
 * lock, which rdma_ack_cm_event needs.
 */
static void wait_for_acks(struct id *id, unsigned events)
{
	UNCANCELLED;

	pthread_mutex_lock(&id->lock);
	while ((int)(events - id->acks) > 0)
		pthread_cond_wait(&id->acked, &id->lock);
	pthread_mutex_unlock(&id->lock);
}

void id_end(struct id *id)
{
	unsigned events;

	iwcm_end(id);
	session_destroy_id(id->number);
	/* From here on there are no new events. */
	id_delivery_begin();
	id->is_lost = true;
	events = count_events(id);
	id_delivery_end();
	wait_for_acks(id, events);
}

void id_free(struct id *id)
{
	forget(id);
	release(id);
}

int id_migrate(struct id *id, struct rdma_event_channel *channel)
{
	struct channel *own = NULL;
	struct channel *to = channel ? channel_of(channel) : (own = channel_create());
	struct ctl_cm_ask ask = { .header = { .type = CTL_CM_MIGRATE_ID }, .id = id->number };
	struct rdma_event_channel *from = id->base.channel;
	unsigned events = 0;
	int rc;

	if (!to)
		return -errno;
	ask.channel = to->number;
	/*
	 * In one delivery: what the new channel delivers finds the identifier there, and is not
	 * waited for.
	 */
	id_delivery_begin();
	rc = session_ask_plain(&ask, NULL);
	if (!rc) {
		id->base.channel = &to->base;
		id->channel_serial = to->serial;
		events = count_events(id);
	}
	id_delivery_end();
	if (rc) {
		if (own)
			channel_destroy(own);
		return rc;
	}
	wait_for_acks(id, events);
	if (id->is_sync)
		channel_destroy(channel_of(from));
	id->is_sync = !channel;
	return 0;
}

int id_refuse_state(const struct id *id)
{
	static const char *const states[] = {
		[ID_IDLE] = "new",
		[ID_BOUND] = "bound to an address",
		[ID_ADDR_RESOLVED] = "at the end of rdma_resolve_addr",
		[ID_ROUTE_RESOLVED] = "at the end of rdma_resolve_route",
		[ID_CONNECTING] = "connecting, connected, or was so",
		[ID_LISTENING] = "listening",
	};

	return refusal(-EINVAL, CAUSE_CM_STATE, "the identifier is %s%s", states[id->state],
		       id->base.qp ? ", and has a QP" : "");
}

int id_set_device(struct id *id)
{
	char text[REFUSAL_ADDRESS_BYTES];
	int rc = 0;

	if (!id->device && !address_is_any(&id->local) && id->local.family)
		rc = device_get(&id->local, &id->remote, &id->device);
	if (rc == -ENODEV)
		refusal(rc, CAUSE_CM_NO_DEVICE, "%s", refusal_print(&id->local, text));
	if (!rc && id->device) {
		id->base.verbs = id->device->verbs;
		id->base.port_num = DEVICE_PORT;
		if (!id->base.pd)
			id->base.pd = id->device->pd;
	}
	id_show_addresses(id);
	return rc;
}

void id_drop_device(struct id *id)
{
	if (!id->device)
		return;
	if (id->base.pd == id->device->pd)
		id->base.pd = NULL;
	id->base.verbs = NULL;
	id->base.port_num = 0;
	device_put(id->device);
	id->device = NULL;
}

void id_show_addresses(struct id *id)
{
	struct rdma_addr *addr = &id->base.route.addr;

	address_to_sockaddr(&id->local, &addr->src_addr);
	address_to_sockaddr(&id->remote, &addr->dst_addr);
	if (id->device) {
		device_gids(id->device, &id->local, &id->remote, &addr->addr.ibaddr.sgid,
			    &addr->addr.ibaddr.dgid);
		addr->addr.ibaddr.pkey = 0xffff;
	}
}
