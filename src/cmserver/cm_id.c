/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_id.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gid.h"
#include "base/host_address.h"
#include "cmserver/cm_channel.h"
#include "cmserver/cm_state.h"
#include "ctl/deadline.h"
#include "daemon/client.h"
#include "daemon/daemon.h"

#define BACKLOG_MAX 1024
#define AGAIN_MS    100
#define LATER_MS    1000

int cm_id_create(struct cm_client *owner, struct cm_channel *channel, uint16_t space,
		 enum ctl_cm_qp_type qp_type, uint32_t number, struct cm_id **out)
{
	struct cm_id *id = calloc(1, sizeof(*id));
	int rc = 0;

	if (!id)
		return -ENOMEM;
	if (number)
		rc = comm_ids_return(&owner->cm->ids, &id->comm_id, number);
	else
		comm_ids_add(&owner->cm->ids, &id->comm_id);
	if (rc) {
		free(id);
		return rc;
	}
	id->owner = owner;
	id->channel = channel;
	list_init(&id->in_channel);
	list_add_tail(&channel->ids, &id->in_channel);
	id->binding.space = space;
	id->qp_type = qp_type;
	list_init(&id->binding.in_bucket);
	list_init(&id->events);
	list_init(&id->children);
	list_init(&id->in_listener);
	list_init(&id->in_client);
	list_init(&id->in_deaf);
	list_add_tail(&owner->ids, &id->in_client);
	owner->id_count++;
	*out = id;
	return 0;
}

void cm_id_destroy(struct cm_id *id)
{
	if (id->listens_everywhere)
		cm_interfaces_put(&id->owner->cm->interfaces);
	list_del(&id->in_deaf);
	gsi_put(id->gsi);
	cm_space_release(&id->binding);
	cm_store_drop(&id->owner->store, &id->slot);
	list_del(&id->in_listener);
	list_del(&id->in_client);
	id->owner->id_count--;
	comm_ids_remove(&id->owner->cm->ids, &id->comm_id);
	list_del(&id->in_channel);
	free(id);
}

void cm_id_release_child(struct cm_id *child)
{
	if (!child->listener)
		return;
	list_del(&child->in_listener);
	/*
	 * If the program has made the backlog shorter, more requests may wait than it has room for.
	 */
	if (child->listener->backlog_left < child->listener->backlog)
		child->listener->backlog_left++;
	child->listener = NULL;
}

void cm_id_make_child(struct cm_id *child, struct cm_id *listener)
{
	child->listener = listener;
	list_add_tail(&listener->children, &child->in_listener);
	listener->backlog_left -= listener->backlog_left != 0;
}

void cm_id_set_address(struct cm_id *id, const uint8_t gid[CTL_GID_BYTES])
{
	if (gid_is_loopback(gid))
		return;
	memcpy(id->own_gid, gid, sizeof(id->own_gid));
	id->has_own_gid = true;
	/* An address that is new since the last look is found at the next one. */
	id->own_ifindex =
		cm_interfaces_find(&id->owner->cm->interfaces, gid, id->binding.local.ifindex);
}

static void set_flags(struct cm_id *id, uint32_t flags)
{
	id->binding.flags = flags & (CTL_CM_REUSEADDR | CTL_CM_AFONLY);
	if (id->binding.local.family == AF_INET)
		id->binding.flags |= CTL_CM_AFONLY;
}

static int take_port(struct cm_id *id, uint32_t flags, const struct ctl_cm_address *local)
{
	int rc;

	id->binding.local = *local;
	set_flags(id, flags);
	rc = cm_space_bind(&id->owner->cm->space, &id->binding);
	if (!rc && !cm_address_is_any(local))
		cm_id_set_address(id, local->gid);
	return rc;
}

int cm_id_bind(struct cm_id *id, uint32_t flags, const struct ctl_cm_address *local)
{
	int rc;

	if (id->binding.listening || id->connection)
		return -EINVAL;
	/* Its program has not got the answer to an earlier request: there was a time-out. */
	cm_space_release(&id->binding);
	id->has_own_gid = false;
	if (local->family != AF_INET && local->family != AF_INET6)
		return -EAFNOSUPPORT;
	rc = cm_address_is_any(local) ? 1 : host_holds_address(local->gid, local->ifindex);
	if (rc <= 0)
		return rc ? rc : -EADDRNOTAVAIL;
	rc = take_port(id, flags, local);
	if (rc)
		memset(&id->binding.local, 0, sizeof(id->binding.local));
	return rc;
}

static void try_later(struct cm_id *id, int ms)
{
	struct cm *cm = id->owner->cm;

	if (list_empty(&cm->deaf) || cm->listen_again.deadline_ns > deadline_in_ms(ms))
		loop_timer_arm(&cm->daemon->loop, &cm->listen_again, ms);
	list_add_tail(&cm->deaf, &id->in_deaf);
}

/*
 * While another user or the kernel has the UDP port of its address, a listener serves only this
 * host. That is not an error, and may change.
 */
static void open_address(struct cm_id *id)
{
	const struct ctl_cm_address *local = &id->binding.local;
	struct cm *cm = id->owner->cm;
	char text[GID_TEXT_BYTES];
	int rc;

	if (cm_address_is_any(local)) {
		id->listens_everywhere = true;
		cm_interfaces_get(&cm->interfaces);
		return;
	}
	if (gid_is_loopback(local->gid))
		return;
	rc = gsi_get_again(&cm->gsi, local->gid, local->ifindex,
			   id->owner->client->uid + UINT64_C(1), LATER_MS - AGAIN_MS, &id->gsi);
	if (rc)
		try_later(id, rc == -EAGAIN ? AGAIN_MS : LATER_MS);
	if (!rc || rc == -EAGAIN || id->was_told)
		return;
	id->was_told = true;
	gid_text(local->gid, text);
	fprintf(stderr, "verbatimd: connections from other hosts to %s cannot be taken: %s\n", text,
		strerror(-rc));
}

/* One try for each address, however many listen there (gsi_get_again). */
static void on_listen_again(struct loop_timer *timer)
{
	struct cm *cm = container_of(timer, struct cm, listen_again);
	struct list due;

	list_init(&due);
	list_take_all(&due, &cm->deaf);
	while (!list_empty(&due)) {
		struct cm_id *id = container_of(due.next, struct cm_id, in_deaf);

		list_del(&id->in_deaf);
		open_address(id);
	}
}

void cm_id_init_all(struct cm *cm)
{
	list_init(&cm->deaf);
	loop_timer_init(&cm->listen_again, on_listen_again);
}

int cm_id_listen(struct cm_id *id, uint32_t backlog, uint32_t flags)
{
	static const struct ctl_cm_address anywhere = {
		.gid = { [10] = 0xff, [11] = 0xff },
		.family = AF_INET,
	};
	int rc = 0;

	if (id->connection)
		return -EINVAL;
	if (!id->binding.bound)
		rc = cm_id_bind(id, flags, &anywhere);
	if (!rc && !id->binding.listening) {
		/* The program may have changed them since it bound the identifier. */
		set_flags(id, flags);
		rc = cm_space_listen(&id->owner->cm->space, &id->binding);
		if (!rc)
			open_address(id);
	}
	if (!rc) {
		id->backlog = backlog && backlog < BACKLOG_MAX ? backlog : BACKLOG_MAX;
		id->backlog_left = id->backlog;
	}
	return rc;
}

int cm_id_bind_again(struct cm_id *id, uint32_t flags, const struct ctl_cm_address *local)
{
	if (!local->port || (local->family != AF_INET && local->family != AF_INET6))
		return -EINVAL;
	return take_port(id, flags, local);
}
