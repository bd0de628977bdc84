/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/counts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"

#define TRAFFIC_AT_ONCE 16

static_assert(ARENA_TRAFFIC % TRAFFIC_AT_ONCE == 0, "traffic is read in equal parts");
static_assert(sizeof(((struct arena_device *)0)->name) == CTL_DEVICE_BYTES, "names fit");

struct kept_counts {
	struct list in_daemon;
	uid_t uid;
	unsigned slot;	 /* of the one process that counted this; 0: of many, none comes back */
	uint64_t cookie; /* of that process's arena */
	char device[CTL_DEVICE_BYTES];
	uint64_t counts[CTL_COUNTS];
};

/*
 * Reads a part of an arena that its owner may be writing. The kernel copies aligned words whole.
 * False: it is too short.
 */
static bool read_part(int arena, size_t offset, void *part, size_t bytes)
{
	return pread(arena, part, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* False: it is no arena, or one of another version. */
static bool read_devices(int arena, struct arena_device devices[ARENA_DEVICES], uint64_t *cookie)
{
	struct arena_header header;

	if (!read_part(arena, 0, &header, sizeof(header)) || header.magic != ARENA_MAGIC ||
	    header.version != ARENA_VERSION)
		return false;
	*cookie = header.cookie;
	return read_part(arena, ARENA_DEVICE_OFFSET, devices, ARENA_DEVICES * sizeof(*devices));
}

static void add_traffic(struct arena_traffic *from, uint64_t to[CTL_COUNTS])
{
	_Atomic uint64_t *words[] = {
		[CTL_SENT_UNICAST] = &from->sent_unicast,
		[CTL_SENT_MULTICAST] = &from->sent_multicast,
		[CTL_SENT_BYTES] = &from->sent_bytes,
		[CTL_RECEIVED_UNICAST] = &from->received_unicast,
		[CTL_RECEIVED_MULTICAST] = &from->received_multicast,
		[CTL_RECEIVED_BYTES] = &from->received_bytes,
	};

	for (unsigned i = 0; i < CTL_EVENT; i++)
		to[i] += atomic_load_explicit(words[i], memory_order_relaxed);
}

/* Adds what the arena has of the device with this index. */
static void add_device(int arena, uint32_t device, uint64_t to[CTL_COUNTS])
{
	struct arena_traffic part[TRAFFIC_AT_ONCE];
	uint64_t events[ARENA_DEVICE_COUNTERS];
	size_t at = ARENA_COUNTER_OFFSET + arena_device_counters(device) * sizeof(events[0]);

	if (read_part(arena, at, events, sizeof(events)))
		for (unsigned i = 0; i < ARENA_DEVICE_COUNTERS; i++)
			to[CTL_EVENT + i] += events[i];
	for (unsigned i = 0; i < ARENA_TRAFFIC; i++) {
		struct arena_traffic *entry = &part[i % TRAFFIC_AT_ONCE];
		uint32_t of;

		at = ARENA_TRAFFIC_OFFSET + i * sizeof(part[0]);
		if (entry == part && !read_part(arena, at, part, sizeof(part)))
			return;
		of = atomic_load_explicit(&entry->device, memory_order_relaxed);
		if (!of) /* entries come into use in their order */
			return;
		if (of == device + 1)
			add_traffic(entry, to);
	}
}

static void add_counts(const uint64_t from[CTL_COUNTS], uint64_t to[CTL_COUNTS])
{
	for (unsigned i = 0; i < CTL_COUNTS; i++)
		to[i] += from[i];
}

static bool is_of_device(const char name[CTL_DEVICE_BYTES], const char device[CTL_DEVICE_BYTES])
{
	return !strncmp(name, device, CTL_DEVICE_BYTES);
}

static void drop(struct kept_counts *kept)
{
	list_del(&kept->in_daemon);
	free(kept);
}

/* The process that has counted this does not come back. */
static void merge(struct daemon *d, struct kept_counts *kept)
{
	unsigned all = 0, of_user = 0;
	struct list *m;

	list_for_each(m, &d->kept_counts) {
		struct kept_counts *other = container_of(m, struct kept_counts, in_daemon);

		if (other->slot)
			continue;
		all++;
		of_user += other->uid == kept->uid;
		if (other->uid != kept->uid || !is_of_device(other->device, kept->device))
			continue;
		add_counts(kept->counts, other->counts);
		drop(kept);
		return;
	}
	if (all >= COUNTS_ALL || of_user >= COUNTS_DEVICES)
		drop(kept);
	else
		kept->slot = 0;
}

void counts_on_slot(struct client *c)
{
	struct arena_device devices[ARENA_DEVICES];
	struct list *m, *after;
	uint64_t cookie = 0;
	bool readable = read_devices(c->arena->fd, devices, &cookie);

	list_for_each_safe(m, after, &c->daemon->kept_counts) {
		struct kept_counts *kept = container_of(m, struct kept_counts, in_daemon);

		if (kept->slot != c->slot)
			continue;
		if (readable && kept->uid == c->uid && kept->cookie == cookie)
			drop(kept);
		else
			merge(c->daemon, kept);
	}
}

static bool is_zero(const uint64_t counts[CTL_COUNTS])
{
	static const uint64_t none[CTL_COUNTS];

	return !memcmp(counts, none, sizeof(none));
}

/* Without memory the counts are lost. */
static void keep(struct client *c, uint64_t cookie, const char device[CTL_DEVICE_BYTES],
		 const uint64_t counts[CTL_COUNTS], bool ended)
{
	struct kept_counts *kept = malloc(sizeof(*kept));

	if (!kept)
		return;
	kept->uid = c->uid;
	kept->slot = c->slot;
	kept->cookie = cookie;
	memcpy(kept->device, device, sizeof(kept->device));
	memcpy(kept->counts, counts, sizeof(kept->counts));
	list_add_tail(&c->daemon->kept_counts, &kept->in_daemon);
	if (ended)
		merge(c->daemon, kept);
}

void counts_on_death(struct client *c)
{
	struct arena_device devices[ARENA_DEVICES];
	bool ended = client_has_ended(c);
	uint64_t cookie;

	if (!c->slot || !read_devices(c->arena->fd, devices, &cookie))
		return;
	for (uint32_t i = 0; i < ARENA_DEVICES; i++) {
		uint64_t counts[CTL_COUNTS] = { 0 };

		if (!devices[i].name[0])
			continue;
		add_device(c->arena->fd, i, counts);
		if (!is_zero(counts))
			keep(c, cookie, devices[i].name, counts, ended);
	}
}

static void add_process(const struct client *c, const char device[CTL_DEVICE_BYTES],
			uint64_t to[CTL_COUNTS])
{
	struct arena_device devices[ARENA_DEVICES];
	uint64_t cookie;

	if (!read_devices(c->arena->fd, devices, &cookie))
		return;
	for (uint32_t i = 0; i < ARENA_DEVICES; i++)
		if (devices[i].name[0] && is_of_device(devices[i].name, device))
			add_device(c->arena->fd, i, to);
}

void counts_sum(const struct client *observer, const char device[CTL_DEVICE_BYTES],
		uint64_t out[CTL_COUNTS])
{
	const struct daemon *d = observer->daemon;
	const struct list *m;

	memset(out, 0, CTL_COUNTS * sizeof(*out));
	list_for_each(m, &d->kept_counts) {
		const struct kept_counts *kept = container_of(m, struct kept_counts, in_daemon);

		if (client_sees_user(observer, kept->uid) && is_of_device(kept->device, device))
			add_counts(kept->counts, out);
	}
	/* also those that are being disconnected: their counts are not kept yet */
	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++)
		if (d->by_slot[slot] && client_sees(observer, d->by_slot[slot]))
			add_process(d->by_slot[slot], device, out);
}

void counts_on_counters(struct client *c, struct fdmsg *m)
{
	struct ctl_counters_reply reply = {
		.header = { .type = CTL_COUNTERS_REPLY, .seq = m->body.header.seq },
	};

	counts_sum(c, m->body.counters.device, reply.counts);
	client_post(c, &reply, sizeof(reply), NULL, 0);
}

void counts_forget(struct daemon *d)
{
	while (!list_empty(&d->kept_counts))
		drop(container_of(d->kept_counts.next, struct kept_counts, in_daemon));
}
