/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_space.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define RANGE_FILE "/proc/sys/net/ipv4/ip_local_port_range"

static struct list *bucket_of(const struct cm_space *s, uint16_t space, uint16_t port)
{
	return (struct list *)&s->buckets[(ntohs(port) ^ space << 4) % CM_SPACE_BUCKETS];
}

static void read_range(struct cm_space *s)
{
	unsigned lowest, highest;
	FILE *f = fopen(RANGE_FILE, "re");

	s->lowest = 32768;
	s->highest = 60999;
	if (!f)
		return;
	if (fscanf(f, "%u %u", &lowest, &highest) == 2 && lowest && lowest <= highest &&
	    highest <= UINT16_MAX) {
		s->lowest = (uint16_t)lowest;
		s->highest = (uint16_t)highest;
	}
	fclose(f);
}

void cm_space_init(struct cm_space *s)
{
	for (unsigned i = 0; i < CM_SPACE_BUCKETS; i++)
		list_init(&s->buckets[i]);
	read_range(s);
	/* A random start: connections of an earlier daemon may live on, with other ports. */
	s->last = (uint16_t)(s->lowest +
			     (unsigned)(clock_now_ns() / 1000) % (s->highest - s->lowest + 1u));
}

bool cm_address_is_any(const struct ctl_cm_address *a)
{
	static const uint8_t any[CTL_GID_BYTES];
	unsigned from = a->family == AF_INET ? 12 : 0;

	return !memcmp(a->gid + from, any, sizeof(any) - from);
}

static bool overlap(const struct cm_binding *a, const struct cm_binding *b)
{
	bool families_differ = a->local.family != b->local.family;

	if (families_differ) {
		const struct cm_binding *v6 = a->local.family == AF_INET6 ? a : b;

		/* [::] accepts IPv4 connections, too, without CTL_CM_AFONLY. */
		return cm_address_is_any(&v6->local) && !(v6->flags & CTL_CM_AFONLY);
	}
	if (cm_address_is_any(&a->local) || cm_address_is_any(&b->local))
		return true;
	return !memcmp(a->local.gid, b->local.gid, CTL_GID_BYTES) &&
	       a->local.ifindex == b->local.ifindex;
}

static bool is_free(const struct cm_space *s, const struct cm_binding *b, bool listens)
{
	struct list *bucket = bucket_of(s, b->space, b->local.port);
	struct list *m;

	list_for_each(m, bucket) {
		const struct cm_binding *o = container_of(m, struct cm_binding, in_bucket);
		bool share = o->flags & b->flags & CTL_CM_REUSEADDR && !o->listening && !listens;

		if (o != b && o->space == b->space && o->local.port == b->local.port && !share &&
		    overlap(o, b))
			return false;
	}
	return true;
}

static int find_port(struct cm_space *s, struct cm_binding *b)
{
	for (unsigned tried = s->lowest; tried <= s->highest; tried++) {
		s->last = s->last < s->highest ? s->last + 1 : s->lowest;
		b->local.port = htons(s->last);
		if (is_free(s, b, true))
			return 0;
	}
	b->local.port = 0;
	return -EADDRNOTAVAIL;
}

int cm_space_bind(struct cm_space *s, struct cm_binding *b)
{
	if (!b->local.port) {
		int rc = find_port(s, b);

		if (rc)
			return rc;
	} else if (!is_free(s, b, false)) {
		return -EADDRINUSE;
	}
	b->bound = true;
	list_add_tail(bucket_of(s, b->space, b->local.port), &b->in_bucket);
	return 0;
}

void cm_space_release(struct cm_binding *b)
{
	list_del(&b->in_bucket);
	b->bound = b->listening = false;
}

int cm_space_listen(struct cm_space *s, struct cm_binding *b)
{
	if (!is_free(s, b, true))
		return -EADDRINUSE;
	b->listening = true;
	return 0;
}

/*
 * How well a listener fits, 0: not at all. This address is better than its family's wildcard, and
 * that is better than [::].
 */
static int fit(const struct cm_binding *b, const struct ctl_cm_address *local)
{
	if (!cm_address_is_any(&b->local))
		return b->local.family == local->family &&
				       !memcmp(b->local.gid, local->gid, CTL_GID_BYTES) &&
				       (!b->local.ifindex || b->local.ifindex == local->ifindex)
			       ? 3
			       : 0;
	if (b->local.family == local->family)
		return 2;
	return b->local.family == AF_INET6 && !(b->flags & CTL_CM_AFONLY) ? 1 : 0;
}

struct cm_binding *cm_space_find(const struct cm_space *s, uint16_t space,
				 const struct ctl_cm_address *local,
				 bool (*suits)(const struct cm_binding *b, const void *arg),
				 const void *arg)
{
	struct list *bucket = bucket_of(s, space, local->port);
	struct cm_binding *best = NULL;
	int best_fit = 0;
	struct list *m;

	list_for_each(m, bucket) {
		struct cm_binding *b = container_of(m, struct cm_binding, in_bucket);

		if (b->listening && b->space == space && b->local.port == local->port &&
		    fit(b, local) > best_fit && suits(b, arg)) {
			best = b;
			best_fit = fit(b, local);
		}
	}
	return best;
}
