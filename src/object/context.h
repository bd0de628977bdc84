/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Context - an open device, with the queue of its async events.
 *
 * In:  events (context_raise). Out: events to ibv_get_async_event. Any thread.
 */
#ifndef OBJECT_CONTEXT_H
#define OBJECT_CONTEXT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compat.h"
#include "base/list.h"
#include "base/lock.h"
#include "object/live_object.h"

struct device; /* netdev/device.h */

/* An event that was raised and not fetched. */
struct async_event {
	struct list link; /* in context->async_pending */
	struct ibv_async_event event;
	/* in its object: the number of fetched events; NULL: the event names a port */
	uint32_t *reported;
};

/*
 * A program finds an op at a fixed distance below its struct ibv_context, after it has checked
 * `sz`: those that its headers have and ours lack are in newer_ops, all NULL.
 */
struct context {
	void *newer_ops[COMPAT_OPS_MISSING];
	struct verbs_context verbs; /* verbs.sz covers newer_ops too */
	uint64_t number;	    /* of its cmd_fd; an imported context has the same */
	bool elsewhere;		    /* imported from another process, with its handles */
	uint32_t home_slot;	    /* that process's slot */
	uint64_t home_cookie;	    /* the cookie of its arena */
	struct device *device;
	uint32_t device_index;	     /* of struct arena_device */
	_Atomic uint32_t objects;    /* PDs, CQs, ...; not freed while not 0 */
	_Atomic uint64_t dm_bytes;   /* device memory in use (object/dm.h) */
	struct list link;	     /* in the adapter's list of contexts */
	bool infiniband;	     /* the link layer: base/lid.h */
	bool iwarp;		     /* its device is an RNIC */
	bool port_up;		     /* as last raised; guarded by the contexts' lock */
	uint32_t gid_changes;	     /* of struct device, as last raised; guarded likewise */
	uint32_t adapter_generation; /* of the adapter at creation; see adapter_is_foreign */

	struct lock async_lock;	   /* guards all below, and `reported` of all objects */
	struct list async_pending; /* struct async_event; verbs.context.async_fd counts them */
	/* dropped events whose count a reader has already taken: so many readers wait again */
	uint32_t async_withdrawn;
};

static inline struct context *context_of(struct ibv_context *ib)
{
	return (struct context *)((char *)ib - offsetof(struct context, verbs.context));
}

/* A new object that keeps the context: verbs find it from now on. */
static inline void context_enter(struct context *context, struct live_object *live, uint32_t handle)
{
	atomic_fetch_add(&context->objects, 1);
	live_object_add(live, handle);
}

/*
 * After an attempt to destroy the object, during which verbs did not find it (live_object_remove).
 * With an error it still exists; without, `live` is freed. Returns the error.
 */
static inline int context_leave(struct context *context, struct live_object *live, uint32_t handle,
				int error)
{
	if (error)
		live_object_add(live, handle);
	else
		atomic_fetch_sub(&context->objects, 1);
	return error;
}

/*
 * Queues an async event and makes async_fd readable. Takes async_lock and allocates; without memory
 * the event is lost, with a cause. `reported`, in the object that the event names, counts the
 * events that are fetched; NULL: the event names a port.
 */
void context_raise(struct context *context, const struct ibv_async_event *event,
		   uint32_t *reported);

/*
 * Drops the pending events of an object that is being destroyed. Takes their counts off async_fd
 * without blocking (eventfd_withdraw), or adds them to async_withdrawn. Returns *reported, how many
 * events were fetched.
 */
uint32_t context_drop_events(struct context *context, const void *object, const uint32_t *reported);

/*
 * The child of a fork has a copy of the context, with an async_fd of its own and no events. Leaks
 * those that were pending.
 */
void context_reset_after_fork(struct context *context);

/*
 * Takes the oldest event, for a reader that has taken one count off async_fd, and counts it as
 * reported. False: the event was dropped; read again. Takes async_lock.
 */
bool context_take_event(struct context *context, struct ibv_async_event *event);

#endif
