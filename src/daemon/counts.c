/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/counts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"

#define REFILL_MS     1
#define EVENTS_OFFSET (ARENA_COUNTER_OFFSET + ARENA_COUNTERS * sizeof(uint64_t))

static_assert(sizeof(((struct arena_device *)0)->name) == CTL_DEVICE_BYTES, "names fit");
static_assert(CTL_EVENTS == ARENA_DEVICE_COUNTERS, "the reply has all events");

struct kept_counts {
	struct list in_counts; /* in of_slot, or in of_user */
	uid_t uid;
	uint64_t cookie; /* of_slot: of the process's arena */
	char device[CTL_DEVICE_BYTES];
	uint64_t counts[CTL_COUNTS];
};

struct counts_sum {
	struct list in_counts;
	struct list observers; /* of this user, which wait for it: never empty */
	uid_t uid;
	char device[CTL_DEVICE_BYTES];
	/* the slot that is next; what its process and later ones have counted is not added yet */
	unsigned next;
	uint64_t counts[CTL_COUNTS];
};

/* What the daemon reads of an arena. */
struct snapshot {
	struct arena_header header;
	struct arena_device devices[ARENA_DEVICES];
	struct { /* as it is there */
		uint64_t events[ARENA_DEVICES][ARENA_DEVICE_COUNTERS];
		struct arena_traffic traffic[ARENA_TRAFFIC];
	} counted;
};

static_assert(sizeof(((struct snapshot *)0)->counted.events) ==
		      ARENA_TRAFFIC_OFFSET - EVENTS_OFFSET,
	      "traffic follows events");

/*
 * Reads a part of an arena that its owner may be writing. The kernel copies aligned words whole.
 * False: it is too short.
 */
static bool read_part(int arena, size_t offset, void *part, size_t bytes)
{
	return pread(arena, part, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Header and devices. False: it is no arena, or one of another version. */
static bool read_devices(int arena, struct snapshot *s)
{
	return read_part(arena, 0, &s->header, sizeof(s->header)) &&
	       s->header.magic == ARENA_MAGIC && s->header.version == ARENA_VERSION &&
	       read_part(arena, ARENA_DEVICE_OFFSET, s->devices, sizeof(s->devices));
}

static bool read_counted(int arena, struct snapshot *s)
{
	return read_part(arena, EVENTS_OFFSET, &s->counted, sizeof(s->counted));
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

/* Adds what was counted of the device with this index. */
static void add_device(struct snapshot *s, uint32_t device, uint64_t to[CTL_COUNTS])
{
	for (unsigned i = 0; i < ARENA_DEVICE_COUNTERS; i++)
		to[CTL_EVENT + i] += s->counted.events[device][i];
	for (unsigned i = 0; i < ARENA_TRAFFIC; i++) {
		struct arena_traffic *entry = &s->counted.traffic[i];
		uint32_t of = atomic_load_explicit(&entry->device, memory_order_relaxed);

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

/* The first of this name; ARENA_DEVICES: none. No honest arena has two. */
static uint32_t find_device(const struct snapshot *s, const char name[CTL_DEVICE_BYTES])
{
	uint32_t i;

	for (i = 0; i < ARENA_DEVICES; i++)
		if (s->devices[i].name[0] && is_of_device(s->devices[i].name, name))
			break;
	return i;
}

static struct list *bucket_of(struct daemon *d, uid_t uid)
{
	return &d->counts.of_user[uid % COUNTS_BUCKETS];
}

static void drop(struct kept_counts *kept)
{
	list_del(&kept->in_counts);
	free(kept);
}

static void drop_all(struct list *all)
{
	struct list *pos, *after;

	list_for_each_safe(pos, after, all)
		drop(list_entry(pos, struct kept_counts, in_counts));
}

/* As client_sees_user of its observers. */
static bool includes_user(const struct counts_sum *sum, uid_t uid)
{
	return sum->uid == uid || sum->uid == 0;
}

static void add_kept(struct counts_sum *sum, const struct kept_counts *kept)
{
	if (includes_user(sum, kept->uid) && is_of_device(kept->device, sum->device))
		add_counts(kept->counts, sum->counts);
}

static void add_all_kept(struct counts_sum *sum, const struct list *all)
{
	const struct list *m;

	list_for_each(m, all)
		add_kept(sum, container_of(m, struct kept_counts, in_counts));
}

/* What was of this slot is now of the user: a sum that comes to the slot later does not find it. */
static void tell_sums(struct daemon *d, const struct kept_counts *kept, unsigned slot)
{
	struct list *m;

	list_for_each(m, &d->counts.sums) {
		struct counts_sum *sum = container_of(m, struct counts_sum, in_counts);

		if (sum->next <= slot)
			add_kept(sum, kept);
	}
}

/* The process of the slot, which has counted this, does not come back. */
static void merge(struct daemon *d, struct kept_counts *kept, unsigned slot)
{
	struct list *bucket = bucket_of(d, kept->uid), *m;
	unsigned of_user = 0;

	list_for_each(m, bucket) {
		struct kept_counts *other = container_of(m, struct kept_counts, in_counts);

		if (other->uid != kept->uid)
			continue;
		of_user++;
		if (!is_of_device(other->device, kept->device))
			continue;
		tell_sums(d, kept, slot);
		add_counts(kept->counts, other->counts);
		drop(kept);
		return;
	}
	if (d->counts.of_user_count >= COUNTS_ALL || of_user >= COUNTS_DEVICES) {
		drop(kept);
		return;
	}
	tell_sums(d, kept, slot);
	list_del(&kept->in_counts);
	list_add_tail(bucket, &kept->in_counts);
	d->counts.of_user_count++;
}

void counts_on_slot(struct client *c)
{
	struct list *m, *after;
	struct snapshot s;
	bool readable = read_devices(c->arena->fd, &s);

	list_for_each_safe(m, after, &c->daemon->counts.of_slot[c->slot]) {
		struct kept_counts *kept = container_of(m, struct kept_counts, in_counts);

		if (readable && kept->uid == c->uid && kept->cookie == s.header.cookie)
			drop(kept);
		else
			merge(c->daemon, kept, c->slot);
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
	kept->cookie = cookie;
	memcpy(kept->device, device, sizeof(kept->device));
	memcpy(kept->counts, counts, sizeof(kept->counts));
	list_add_tail(&c->daemon->counts.of_slot[c->slot], &kept->in_counts);
	if (ended)
		merge(c->daemon, kept, c->slot);
}

static void free_sum(struct counts_sum *sum)
{
	list_del(&sum->in_counts);
	free(sum);
}

/* What nobody waits for any more is not summed. */
static void wait_no_more(struct client *observer)
{
	struct counts_sum *sum = observer->sum;

	list_del(&observer->in_sum);
	observer->sum = NULL;
	if (list_empty(&sum->observers))
		free_sum(sum);
}

void counts_on_death(struct client *c)
{
	bool ended = client_has_ended(c);
	struct snapshot s;

	if (c->sum)
		wait_no_more(c);
	if (!c->slot || !read_devices(c->arena->fd, &s) || !read_counted(c->arena->fd, &s))
		return;
	for (uint32_t i = 0; i < ARENA_DEVICES; i++) {
		uint64_t counts[CTL_COUNTS] = { 0 };

		if (find_device(&s, s.devices[i].name) != i)
			continue;
		add_device(&s, i, counts);
		if (!is_zero(counts))
			keep(c, s.header.cookie, s.devices[i].name, counts, ended);
	}
}

static void add_process(struct counts_sum *sum, const struct client *process)
{
	struct snapshot s;
	uint32_t device;

	if (!read_devices(process->arena->fd, &s))
		return;
	device = find_device(&s, sum->device);
	if (device < ARENA_DEVICES && read_counted(process->arena->fd, &s))
		add_device(&s, device, sum->counts);
}

/* Whether one more arena may be read before the next refill. */
static bool take_read(struct daemon *d)
{
	if (!d->counts.reads_left)
		return false;
	if (d->counts.reads_left-- == COUNTS_READS)
		loop_timer_arm(&d->loop, &d->counts.refill, REFILL_MS);
	return true;
}

/* Adds slot by slot. False: it is not through, and goes on after the next refill. */
static bool advance(struct daemon *d, struct counts_sum *sum)
{
	for (; sum->next <= CTL_SLOT_MAX; sum->next++) {
		/* also one that is being disconnected: its counts are not kept yet */
		const struct client *process = d->by_slot[sum->next];

		if (process && includes_user(sum, process->uid)) {
			if (!take_read(d))
				return false;
			add_process(sum, process);
		}
		add_all_kept(sum, &d->counts.of_slot[sum->next]);
	}
	return true;
}

static void answer(struct counts_sum *sum)
{
	struct ctl_counters_reply reply = { .header = { .type = CTL_COUNTERS_REPLY } };
	struct list *m, *after;

	memcpy(reply.counts, sum->counts, sizeof(reply.counts));
	list_for_each_safe(m, after, &sum->observers) {
		struct client *observer = container_of(m, struct client, in_sum);

		reply.header.seq = observer->sum_seq;
		list_del(&observer->in_sum);
		observer->sum = NULL;
		client_post(observer, &reply, sizeof(reply), NULL, 0);
	}
	free_sum(sum);
}

/* Those that wait take turns: a user with few processes does not wait for one with many. */
static void on_refill(struct loop_timer *timer)
{
	struct counts *counts = container_of(timer, struct counts, refill);
	struct daemon *d = container_of(counts, struct daemon, counts);

	counts->reads_left = COUNTS_READS;
	while (!list_empty(&counts->sums)) {
		struct counts_sum *sum =
			container_of(counts->sums.next, struct counts_sum, in_counts);

		if (advance(d, sum)) {
			answer(sum);
			continue;
		}
		list_del(&sum->in_counts);
		list_add_tail(&counts->sums, &sum->in_counts);
		return;
	}
}

/* One that is under way for the same user and device; NULL: none. */
static struct counts_sum *find_sum(struct daemon *d, uid_t uid, const char device[CTL_DEVICE_BYTES])
{
	struct list *m;

	list_for_each(m, &d->counts.sums) {
		struct counts_sum *sum = container_of(m, struct counts_sum, in_counts);

		if (sum->uid == uid && is_of_device(sum->device, device))
			return sum;
	}
	return NULL;
}

/* With what is kept of users; NULL: no memory. */
static struct counts_sum *begin_sum(struct daemon *d, uid_t uid,
				    const char device[CTL_DEVICE_BYTES])
{
	struct counts_sum *sum = calloc(1, sizeof(*sum));

	if (!sum)
		return NULL;
	list_init(&sum->observers);
	sum->uid = uid;
	memcpy(sum->device, device, sizeof(sum->device));
	sum->next = 1;
	list_add_tail(&d->counts.sums, &sum->in_counts);
	if (uid)
		add_all_kept(sum, bucket_of(d, uid));
	for (unsigned i = 0; !uid && i < COUNTS_BUCKETS; i++)
		add_all_kept(sum, &d->counts.of_user[i]);
	return sum;
}

void counts_on_counters(struct client *c, struct fdmsg *m)
{
	const char *device = m->body.counters.device;
	struct daemon *d = c->daemon;
	struct counts_sum *sum;

	if (c->sum) {
		client_disconnect(c, "it asked for counters while it waited for some");
		return;
	}
	sum = find_sum(d, c->uid, device);
	if (!sum)
		sum = begin_sum(d, c->uid, device);
	if (!sum) {
		client_disconnect(c, "no memory for its counters");
		return;
	}
	c->sum = sum;
	c->sum_seq = m->body.header.seq;
	list_add_tail(&sum->observers, &c->in_sum);
	if (advance(d, sum))
		answer(sum);
}

void counts_init(struct daemon *d)
{
	struct counts *counts = &d->counts;

	for (unsigned i = 0; i <= CTL_SLOT_MAX; i++)
		list_init(&counts->of_slot[i]);
	for (unsigned i = 0; i < COUNTS_BUCKETS; i++)
		list_init(&counts->of_user[i]);
	list_init(&counts->sums);
	counts->of_user_count = 0;
	counts->reads_left = COUNTS_READS;
	loop_timer_init(&counts->refill, on_refill);
}

void counts_forget(struct daemon *d)
{
	struct counts *counts = &d->counts;
	struct list *pos, *after;

	loop_timer_disarm(&counts->refill);
	list_for_each_safe(pos, after, &counts->sums) /* their observers are no more */
		free_sum(list_entry(pos, struct counts_sum, in_counts));
	for (unsigned i = 0; i <= CTL_SLOT_MAX; i++)
		drop_all(&counts->of_slot[i]);
	for (unsigned i = 0; i < COUNTS_BUCKETS; i++)
		drop_all(&counts->of_user[i]);
}
