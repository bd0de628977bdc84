/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/contexts.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/gid.h"
#include "base/list.h"
#include "base/lock.h"
#include "netdev/device.h"

static struct lock contexts_lock = LOCK_INITIALIZER;
static struct list contexts GUARDED_BY(contexts_lock) = { &contexts, &contexts };
static _Atomic uint32_t generation = 1; /* of the process: counts forks */
static void *arena;
static bool taken[ARENA_TRAFFIC] GUARDED_BY(contexts_lock); /* by a port that is open */

void contexts_init(void *own_arena)
{
	lock_acquire(&contexts_lock);
	arena = own_arena;
	memset(taken, 0, sizeof(taken));
	lock_release(&contexts_lock);
}

/* The device's entry in the arena, or a free one; if none is free, devices share the last. */
static uint32_t device_entry(const char *name) REQUIRES(contexts_lock)
{
	struct arena_device *devices = arena_devices(arena);
	uint32_t i;

	for (i = 0; i < ARENA_DEVICES - 1; i++)
		if (!devices[i].name[0] || !strcmp(devices[i].name, name))
			break;
	return i;
}

static void show_device(struct context *context) REQUIRES(contexts_lock)
{
	const struct device *device = context->device;
	const uint8_t *gid = device->gid[0].raw;
	uint32_t index = device_entry(device->ib.name);
	struct arena_device *entry = &arena_devices(arena)[index];

	context->device_index = index;
	snprintf(entry->name, sizeof(entry->name), "%.31s", device->ib.name);
	gid_text(gid, entry->address);
	entry->contexts++;
}

/* Others mean something else in another network namespace. */
static bool is_shown(const uint8_t gid[16])
{
	return !gid_is_zero(gid) && !gid_is_link_local(gid) && !gid_is_loopback(gid);
}

static bool is_among(uint8_t gids[ARENA_ADDRESSES][16], const uint8_t gid[16])
{
	for (unsigned i = 0; i < ARENA_ADDRESSES; i++)
		if (!memcmp(gids[i], gid, 16))
			return true;
	return false;
}

/* The first free place; ARENA_ADDRESSES: there is none. */
static unsigned free_place(uint8_t gids[ARENA_ADDRESSES][16])
{
	unsigned place = 0;

	while (place < ARENA_ADDRESSES && !gid_is_zero(gids[place]))
		place++;
	return place;
}

static void add_addresses_of(struct device *device, uint8_t gids[ARENA_ADDRESSES][16])
{
	lock_acquire(&device->lock);
	for (unsigned i = 0; i < DEVICE_GIDS; i++) {
		const uint8_t *gid = device->gid[i].raw;
		unsigned place = free_place(gids);

		if (is_shown(gid) && !is_among(gids, gid) && place < ARENA_ADDRESSES)
			memcpy(gids[place], gid, 16);
	}
	lock_release(&device->lock);
}

/* What this thread, or another one under the lock, has stored before. */
static void load_address(struct arena_address *from, uint8_t gid[16]) REQUIRES(contexts_lock)
{
	uint64_t halves[2] = { atomic_load_explicit(&from->prefix, memory_order_relaxed),
			       atomic_load_explicit(&from->interface, memory_order_relaxed) };

	memcpy(gid, halves, 16);
}

/*
 * ADDRESS: the interface is 0 while the prefix changes. A place is emptied before it is filled.
 */
static void store_address(struct arena_address *to, const uint8_t gid[16]) REQUIRES(contexts_lock)
{
	uint64_t halves[2];

	memcpy(halves, gid, 16);
	atomic_store_explicit(&to->interface, 0, memory_order_relaxed);
	atomic_store_explicit(&to->prefix, halves[0], memory_order_release);
	atomic_store_explicit(&to->interface, halves[1], memory_order_release);
}

/* What stays has its place, so a peer that looks meanwhile finds it. */
static void show_addresses(void) REQUIRES(contexts_lock)
{
	struct arena_address *addresses = arena_header(arena)->addresses;
	uint8_t now[ARENA_ADDRESSES][16] = { 0 }, shown[ARENA_ADDRESSES][16];
	static const uint8_t none[16];
	struct list *pos;

	list_for_each(pos, &contexts)
		add_addresses_of(list_entry(pos, struct context, link)->device, now);
	for (unsigned i = 0; i < ARENA_ADDRESSES; i++) {
		load_address(&addresses[i], shown[i]);
		if (is_among(now, shown[i]))
			continue;
		store_address(&addresses[i], none);
		memset(shown[i], 0, 16);
	}
	for (unsigned i = 0; i < ARENA_ADDRESSES && !gid_is_zero(now[i]); i++) {
		unsigned place = free_place(shown);

		if (is_among(shown, now[i]) || place == ARENA_ADDRESSES)
			continue;
		store_address(&addresses[place], now[i]);
		memcpy(shown[place], now[i], 16);
	}
}

void contexts_show_addresses(void)
{
	lock_acquire(&contexts_lock);
	if (arena)
		show_addresses();
	lock_release(&contexts_lock);
}

/* The device's entry in the arena; ARENA_DEVICES: it has none. */
static uint32_t find_device(const char *name) REQUIRES(contexts_lock)
{
	uint32_t i;

	for (i = 0; i < ARENA_DEVICES; i++)
		if (!strcmp(arena_devices(arena)[i].name, name))
			break;
	return i;
}

static struct arena_traffic *take_traffic(uint32_t device) REQUIRES(contexts_lock)
{
	struct arena_traffic *entries = arena_traffic(arena);

	for (uint32_t i = 0; i < ARENA_TRAFFIC; i++) {
		uint32_t of = atomic_load_explicit(&entries[i].device, memory_order_relaxed);

		if (taken[i] || (of && of != device + 1))
			continue;
		atomic_store_explicit(&entries[i].device, device + 1, memory_order_relaxed);
		taken[i] = true;
		return &entries[i];
	}
	return NULL;
}

struct arena_traffic *contexts_take_traffic(const char *device)
{
	struct arena_traffic *traffic = NULL;
	uint32_t index;

	lock_acquire(&contexts_lock);
	index = arena ? find_device(device) : ARENA_DEVICES;
	if (index < ARENA_DEVICES)
		traffic = take_traffic(index);
	lock_release(&contexts_lock);
	return traffic;
}

void contexts_give_traffic_back(struct arena_traffic *traffic)
{
	if (!traffic)
		return;
	lock_acquire(&contexts_lock);
	if (arena)
		taken[traffic - arena_traffic(arena)] = false;
	lock_release(&contexts_lock);
}

void contexts_add(struct context *context)
{
	context->adapter_generation = generation;
	lock_acquire(&contexts_lock);
	list_add_tail(&contexts, &context->link);
	show_device(context);
	show_addresses();
	lock_release(&contexts_lock);
}

void contexts_remove(struct context *context)
{
	if (contexts_is_foreign(context))
		return;
	lock_acquire(&contexts_lock);
	list_del(&context->link);
	arena_devices(arena)[context->device_index].contexts--;
	show_addresses();
	lock_release(&contexts_lock);
}

void contexts_visit(void (*visit)(struct context *context, void *arg), void *arg)
{
	struct list *pos;

	lock_acquire(&contexts_lock);
	list_for_each(pos, &contexts)
		visit(list_entry(pos, struct context, link), arg);
	lock_release(&contexts_lock);
}

bool contexts_is_foreign(const struct context *context)
{
	return context->adapter_generation != generation;
}

void contexts_reset_after_fork(void)
{
	struct list *pos;

	generation++;
	lock_acquire_in_child(&contexts_lock);
	list_for_each(pos, &contexts)
		context_reset_after_fork(list_entry(pos, struct context, link));
	list_init(&contexts);
	arena = NULL;
	lock_release(&contexts_lock);
}
