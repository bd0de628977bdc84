/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts - the open contexts of this process, and what the arena has of their devices.
 *
 * In:  contexts that are opened and closed; ports.
 * Out: the contexts, for port events and for a fork; the count that `verbatim show` prints; the
 *      addresses by which peers of other network namespaces know this process; where ports count.
 *
 * Any thread. Its lock is held over visits, outside of the devices' locks and context->async_lock.
 */
#ifndef ADAPTER_CONTEXTS_H
#define ADAPTER_CONTEXTS_H

#include <stdbool.h>

#include "object/context.h"

struct arena_traffic;

/* `arena`: where devices are shown. */
void contexts_init(void *arena);

void contexts_add(struct context *context);
void contexts_remove(struct context *context);

/* Addresses of devices may have changed: the arena has those that there are now. */
void contexts_show_addresses(void);

/*
 * An entry of the device's that no other port has, for a port to count its packets in. So they are
 * counted without atomic read-modify-write. The entry goes to the next port of the device, and
 * keeps its counts. NULL: the device is not open, or the entries are used up; the port's packets
 * are not counted.
 */
struct arena_traffic *contexts_take_traffic(const char *device);

/* Its port is closed. `traffic` may be NULL. */
void contexts_give_traffic_back(struct arena_traffic *traffic);

/* Calls visit for each. No context is closed meanwhile; visit must not open or close one. */
void contexts_visit(void (*visit)(struct context *context, void *arg), void *arg);

/* True in a child of the process that opened it. */
bool contexts_is_foreign(const struct context *context);

/* In the child of any fork, also of a process without an adapter. */
void contexts_reset_after_fork(void);

#endif
