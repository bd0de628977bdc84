/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/links.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "daemon/slot_token.h"

struct link {
	struct client *ends[2]; /* by side; both the same in a process's link with itself */
	off_t bytes;		/* of the memory, each time */
	struct fdref *memory;	/* NULL: forgotten */
	struct list kept;	/* in daemon.kept_links while it has its memory; else alone */
};

/*
 * Rings hold what a stream sends in a time slice where its ends share a processor, so long ones are
 * faster. But between each two of many processes they would take too much memory.
 */
static off_t memory_bytes(const struct daemon *d)
{
	unsigned processes = 0;

	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++)
		processes += d->by_slot[slot] != NULL;
	return processes <= LONG_PROCESSES_MAX ? LINK_BYTES_LONG : LINK_BYTES_SHORT;
}

static struct fdref *create_memory(off_t bytes, int *error)
{
	int fd = memfd_create("verbatim-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fdref *f;

	if (fd < 0) {
		*error = errno;
		return NULL;
	}
	/* Sealed: neither end can shrink the memory while the other accesses it. */
	if (ftruncate(fd, bytes) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		*error = errno;
		close(fd);
		return NULL;
	}
	f = fdref_create(fd);
	if (!f)
		*error = ENOMEM;
	return f;
}

/* The fdref closes it once no message waits that has it. */
static void forget(struct daemon *d, struct link *l)
{
	if (!l->memory)
		return;
	list_del(&l->kept);
	d->kept_count--;
	fdref_put(l->memory);
	l->memory = NULL;
}

static void forget_oldest(struct daemon *d)
{
	forget(d, list_entry(d->kept_links.next, struct link, kept));
}

static unsigned kept_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 8 >= LINKS_KEPT)
		return LINKS_KEPT;
	return (unsigned)limit.rlim_cur / 8;
}

static void forget_beyond_limit(struct daemon *d)
{
	unsigned max = kept_max();

	while (d->kept_count > max)
		forget_oldest(d);
}

/* 0, or a positive errno. Where descriptors are short, older links lose theirs. */
static int give_memory(struct daemon *d, struct link *l)
{
	int error = 0;

	do {
		l->memory = create_memory(l->bytes, &error);
		if (l->memory) {
			list_add_tail(&d->kept_links, &l->kept);
			d->kept_count++;
			return 0;
		}
		if ((error != EMFILE && error != ENFILE) || list_empty(&d->kept_links))
			return error;
		forget_oldest(d);
	} while (true);
}

/* Without memory. NULL: out of memory. */
static struct link *create(struct client *a, struct client *b)
{
	struct link *l = malloc(sizeof(*l));

	if (!l)
		return NULL;
	l->ends[0] = a->slot < b->slot ? a : b;
	l->ends[1] = a->slot < b->slot ? b : a;
	l->bytes = memory_bytes(a->daemon);
	l->memory = NULL;
	list_init(&l->kept);
	a->links[b->slot] = l;
	b->links[a->slot] = l;
	return l;
}

static void destroy(struct link *l)
{
	l->ends[0]->links[l->ends[1]->slot] = NULL;
	l->ends[1]->links[l->ends[0]->slot] = NULL;
	forget(l->ends[0]->daemon, l);
	free(l);
}

/* Sends one end the descriptors of the other. */
static int send_link(struct link *l, struct client *to, struct client *peer,
		     struct ctl_header header)
{
	struct ctl_link message = {
		.header = header,
		.slot = peer->slot,
		.pid = peer->pid,
		.uid = peer->uid,
		.side = to == l->ends[0] ? 0 : 1,
	};
	struct fdref *fds[CTL_LINK_FDS] = { peer->arena, peer->wake, l->memory, peer->heap };

	return client_post(to, &message, sizeof(message), fds, CTL_LINK_FDS);
}

/* Makes memory, and tells the other end of it. 0, or a positive errno: then there is none. */
static int offer_memory(struct link *l, struct client *c, struct client *peer)
{
	int error = give_memory(c->daemon, l), rc;

	if (error || peer == c)
		return error;
	/* The other end first: if that fails, the requester gets no link either. */
	rc = send_link(l, peer, c, (struct ctl_header){ .type = CTL_NOTICE_LINK });
	if (!rc)
		return 0;
	forget(c->daemon, l);
	return rc == -ECONNRESET ? ENOENT : EMFILE;
}

/*
 * In a shared directory the answer that there is no such process decides on the path of a QP. So
 * it is not given of a process that has not returned to this daemon yet, or is about to connect
 * anew: that has its token.
 */
static bool is_away(struct daemon *d, unsigned slot)
{
	return d->scope == DAEMON_OF_DIRECTORY && slot >= 1 && slot <= CTL_SLOT_MAX &&
	       slot_token_is_held(d, slot);
}

/* The link of c with a peer, made if need be, with memory. NULL and *error: a positive errno. */
static struct link *find_or_create(struct client *c, unsigned slot, int *error)
{
	struct client *peer = slot >= 1 && slot <= CTL_SLOT_MAX ? c->daemon->by_slot[slot] : NULL;
	struct link *l;
	bool is_new;

	if (!peer || peer->disconnecting || !client_sees(c, peer)) {
		*error = is_away(c->daemon, slot) ? EAGAIN : ENOENT;
		return NULL;
	}
	is_new = !c->links[slot];
	l = is_new ? create(c, peer) : c->links[slot];
	if (!l) {
		*error = ENOMEM;
		return NULL;
	}
	if (!l->memory)
		*error = offer_memory(l, c, peer);
	if (!*error)
		return l;
	/* One that the ends knew before stays: each of them is told of the other's death. */
	if (is_new)
		destroy(l);
	return NULL;
}

void links_init(struct daemon *d)
{
	list_init(&d->kept_links);
}

void links_on_peer(struct client *c, struct fdmsg *m)
{
	struct ctl_header header = { .type = CTL_PEER_REPLY, .seq = m->body.header.seq };
	unsigned slot = m->body.peer.slot;
	int error = 0;
	struct link *l = find_or_create(c, slot, &error);

	if (l && send_link(l, c, c->daemon->by_slot[slot], header) == -ETOOMANYREFS)
		error = EMFILE;
	forget_beyond_limit(c->daemon);
	if (error) {
		struct ctl_link none = { .header = header, .status = error, .slot = slot };

		client_post(c, &none, sizeof(none), NULL, 0);
	}
}

static void drop_links(struct client *c, bool tells)
{
	struct ctl_death death = {
		.header = { .type = CTL_NOTICE_DEATH },
		.slot = c->slot,
		.pid = c->pid,
	};

	for (unsigned slot = 1; c->links && slot <= CTL_SLOT_MAX; slot++) {
		struct link *l = c->links[slot];

		if (!l)
			continue;

		struct client *peer = l->ends[l->ends[0] == c];

		destroy(l);
		if (tells && peer != c)
			client_post(peer, &death, sizeof(death), NULL, 0);
	}
}

void links_on_death(struct client *c)
{
	drop_links(c, true);
}

void links_on_dismissal(struct client *c)
{
	drop_links(c, false);
}

#ifdef VERBATIM_CHECK
/*
 * The links of a process:
 * - each is known to both ends, by the slot of the other one;
 * - both ends have their slots, and the lower one is on side 0;
 * - it has its memory if and only if it is among those that keep theirs.
 */
void links_check(const struct client *c)
{
	for (unsigned slot = 1; c->links && slot <= CTL_SLOT_MAX; slot++) {
		const struct link *l = c->links[slot];
		const struct client *peer;

		if (!l)
			continue;
		INVARIANT(l->ends[0] == c || l->ends[1] == c, "slots %u and %u: ends %u and %u",
			  c->slot, slot, l->ends[0]->slot, l->ends[1]->slot);
		peer = l->ends[l->ends[0] == c];
		INVARIANT(peer == c->daemon->by_slot[slot] && peer->links[c->slot] == l,
			  "slots %u and %u: the other end has slot %u", c->slot, slot, peer->slot);
		INVARIANT(l->ends[0]->slot <= l->ends[1]->slot, "sides %u and %u", l->ends[0]->slot,
			  l->ends[1]->slot);
		INVARIANT(!l->memory == list_empty(&l->kept), "slots %u and %u: memory %d", c->slot,
			  slot, l->memory != NULL);
	}
}
#endif
