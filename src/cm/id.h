/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifier - the program's half of an rdma_cm_id.
 *
 * verbatimd knows it by its number. Any thread may use it. As in rdma-core, the program ensures
 * that no call is under way when it destroys the identifier; rdma_destroy_id waits for events that
 * were not acknowledged.
 */
#ifndef CM_ID_H
#define CM_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm/channel.h"
#include "cm/device.h"
#include "ctl/protocol.h"

struct membership; /* membership.c */
struct iwcm;	   /* iwcm.h */

/* The progress of the identifier. Each call checks it. */
enum id_state {
	ID_IDLE = 0,
	ID_BOUND, /* has a port; and a device, unless it is bound to the wildcard */
	ID_ADDR_RESOLVED,
	ID_ROUTE_RESOLVED,
	ID_CONNECTING, /* or connected, or disconnected: final. A child begins here */
	ID_LISTENING,
};

struct id {
	struct rdma_cm_id base; /* first: the program's pointer */
	struct id *next;	/* in its bucket */
	uint32_t number;
	uint64_t channel_serial; /* of base.channel, which may have ended */
	bool is_sync;		 /* has a channel of its own, calls wait for their event */
	bool is_lost; /* verbatimd died, and the program had DEVICE_REMOVAL; within a delivery */
	struct device *device; /* NULL: not bound to one */

	struct ctl_cm_address local, remote; /* as in route.addr */
	enum id_state state;
	uint32_t bind_flags; /* CTL_CM_REUSEADDR, CTL_CM_AFONLY */
	uint8_t tos;
	uint8_t ack_timeout;
	bool has_ack_timeout; /* the program has set it, if to 0: no time-out */

	/* The connection. */
	uint32_t psn; /* the first that the peer is to send */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	struct iwcm *iwcm; /* iWARP: from its port on; NULL: not iWARP */
	bool has_peer;	   /* peer is valid: RTR is possible */
	bool failed; /* the QP could not be moved: the program gets no event after CONNECT_ERROR */
	struct ctl_cm_end peer;
	struct ibv_ece local_ece;

	/* Of an endpoint that listens: for the QPs of its children. */
	struct ibv_qp_init_attr *qp_init_attr;

	/* Of an endpoint: goes before the program's private data in a request. */
	void *connect_data;
	size_t connect_bytes;

	/* Of rdma_resolve_addrinfo, not queried yet. */
	struct rdma_addrinfo *resolved;

	/* Guards all below. */
	pthread_mutex_t lock;
	pthread_cond_t acked;
	unsigned events; /* given to the program so far, */
	unsigned acks;	 /* and acknowledged of these */
	struct membership *memberships;
};

static inline struct id *id_of(struct rdma_cm_id *base)
{
	return (struct id *)base;
}

/* With a channel of its own if channel is NULL. 0 or -errno. */
int id_create(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
	      enum ibv_qp_type type, struct id **out);

/* Makes the child of a request; verbatimd has its half already. 0 or -errno. */
int id_adopt(const struct id *listener, const struct ctl_cm_event *event, struct id **out);

/* The same of a request by iWARP, which verbatimd has nothing of. */
struct iwcm_event;
int id_adopt_iwarp(const struct id *listener, const struct iwcm_event *event, struct id **out);

/*
 * id_end ends the identifier in verbatimd, and returns when no event is being delivered and all are
 * acknowledged; the caller has acknowledged base.event. id_free frees it.
 */
void id_end(struct id *id);
void id_free(struct id *id);

/*
 * Around the delivery of an event, from before verbatimd gives it until id_hold_event. The
 * identifier exists that long: id_end first ends it in verbatimd, then waits for deliveries, then
 * for events that hold it. A child is added within a delivery, too, so that its next event finds
 * it.
 */
void id_delivery_begin(void);
void id_delivery_end(void);

/* NULL: there is none (any more). Within a delivery. */
struct id *id_find(uint32_t number);

/* The next identifier of a lost channel that had no DEVICE_REMOVAL yet. Within a delivery. */
struct id *id_next_lost(const struct channel *ch);

/*
 * Moves the identifier with its events, and waits until as many are acknowledged as the old channel
 * has given; the caller has acknowledged base.event. NULL: to a channel of its own.
 */
int id_migrate(struct id *id, struct rdma_event_channel *channel);

/* The program gets an event; the program has acknowledged it. */
void id_hold_event(struct id *id);
void id_ack_event(struct id *id);

/* Puts an event into the identifier's channel. cookie comes back with it. 0 or -errno. */
int id_raise_event(struct id *id, enum rdma_cm_event_type type, int status, uint64_t cookie);

/* -EINVAL, with a cause: the identifier is not in the state for the call. */
int id_refuse_state(const struct id *id);

/* Sets the device, from the addresses. 0 or -errno. */
int id_set_device(struct id *id);

/* Undoes id_set_device: the address could not be bound. */
void id_drop_device(struct id *id);

/* Sets route.addr from local and remote. */
void id_show_addresses(struct id *id);

#endif
