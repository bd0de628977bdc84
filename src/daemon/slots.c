/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/slots.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "daemon/directory.h"
#include "daemon/ports.h"
#include "daemon/slot_token.h"
#include "daemon/token.h"

static void give(struct client *c, unsigned slot)
{
	struct daemon *d = c->daemon;

	c->slot = slot;
	d->by_slot[slot] = c;
	d->slot_uids[slot] = c->uid + UINT64_C(1);
	idle_exit_hold(&d->idle_exit);
}

static bool has_its_share(struct daemon *d, uid_t uid)
{
	unsigned mine = 0, used = 0;
	int fd = token_make_socket();

	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
		if (!d->by_slot[slot] && d->slot_uids[slot] && fd >= 0 &&
		    !slot_token_answers(d, fd, slot))
			d->slot_uids[slot] = 0;
		used += d->slot_uids[slot] != 0;
		mine += d->slot_uids[slot] == uid + UINT64_C(1);
	}
	if (fd >= 0)
		close(fd);
	return mine >= CTL_SLOT_MAX - used;
}

int slots_admit(struct client *c, uint32_t directory)
{
	struct daemon *d = c->daemon;

	if (directory && d->scope == DAEMON_OF_SYSTEM)
		return -EOPNOTSUPP;
	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
		const struct client *other = d->by_slot[slot];

		if (other && other->directory != directory && !other->disconnecting &&
		    !client_is_closed(other))
			return -EXDEV;
	}
	c->directory = directory;
	return 0;
}

/* 0; -EADDRINUSE: the slot is in use; -errno. */
static int take(struct client *c, unsigned slot, int token_fd)
{
	struct daemon *d = c->daemon;
	int rc;

	if (d->by_slot[slot] || !ports_suit(d, slot, c->uid))
		return -EADDRINUSE;
	/*
	 * EADDRINUSE: the token is held by a process that has not returned, or by a child of a dead
	 * one.
	 */
	rc = directory_bind(d, token_fd, sockname_of_slot, slot);
	if (rc)
		return rc;
	ports_on_new_slot(d, slot);
	give(c, slot);
	return 0;
}

int slots_claim(struct client *c, unsigned slot, int *token_fd)
{
	int fd, rc;

	if (slot < 1 || slot > CTL_SLOT_MAX || !c->directory)
		return -EPROTO;
	fd = token_make_socket();
	if (fd < 0)
		return -errno;
	rc = take(c, slot, fd);
	if (rc)
		close(fd);
	else
		*token_fd = fd;
	return rc == -EADDRINUSE ? -EAGAIN : rc;
}

int slots_take(struct client *c, int *token_fd)
{
	struct daemon *d = c->daemon;
	int fd;

	if (d->scope == DAEMON_OF_SYSTEM && has_its_share(d, c->uid))
		return -EDQUOT;
	fd = token_make_socket();
	if (fd < 0)
		return -errno;
	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
		int rc = take(c, slot, fd);

		if (!rc) {
			*token_fd = fd;
			return 0;
		}
		if (rc != -EADDRINUSE) {
			close(fd);
			return rc;
		}
	}
	close(fd);
	return -ENOSPC;
}

/*
 * The connection that has the slot is an earlier one of the client's process, whose end has not
 * been seen yet. It is gone after this turn.
 */
static int cut_off(struct client *earlier, const struct client *c)
{
	if (earlier->uid != c->uid)
		return -EADDRINUSE;
	client_disconnect(earlier, "its process has connected anew");
	return -EAGAIN;
}

/*
 * Whether a token is one of this slot that was made in another directory, or without one. It cannot
 * be tried, as its name may be gone. A daemon of one user takes it all the same: it serves that
 * user alone, whose processes could take one another's tokens anyhow. But not while another process
 * holds the slot's own token.
 */
static bool is_from_elsewhere(struct daemon *d, unsigned slot, int token_fd)
{
	struct sockname actual;

	return d->scope != DAEMON_OF_SYSTEM && token_get_name(token_fd, &actual) &&
	       sockname_is_slot_elsewhere(&d->space, slot, &actual) && !slot_token_is_held(d, slot);
}

static int prove(const struct client *c, unsigned slot, int token_fd)
{
	struct sockname name;

	sockname_of_slot(&c->daemon->space, slot, &name);
	return token_prove(c->uid, token_fd, &name);
}

/*
 * A client that lives loses its slot to nobody but the holder of the slot's own token: two
 * processes with tokens from elsewhere would take it from each other for ever.
 */
static bool may_cut_off(const struct client *earlier, unsigned slot, int token_fd, int proof)
{
	if (!proof)
		return true;
	return proof == -EPERM && client_is_closed(earlier) &&
	       is_from_elsewhere(earlier->daemon, slot, token_fd);
}

int slots_adopt(struct client *c, unsigned slot, int token_fd)
{
	struct client *earlier;
	int rc;

	if (slot < 1 || slot > CTL_SLOT_MAX)
		return -EPROTO;
	earlier = c->daemon->by_slot[slot];
	rc = prove(c, slot, token_fd);
	if (rc && rc != -EPERM)
		return rc;
	if (earlier)
		return may_cut_off(earlier, slot, token_fd, rc) ? cut_off(earlier, c) : -EADDRINUSE;
	if (rc == -EPERM && is_from_elsewhere(c->daemon, slot, token_fd))
		rc = 0;
	if (!rc)
		give(c, slot);
	return rc;
}

void slots_on_death(struct client *c)
{
	struct daemon *d = c->daemon;

	if (!c->slot)
		return;
	d->by_slot[c->slot] = NULL;
	idle_exit_release(&d->idle_exit);
}

#ifdef VERBATIM_CHECK
/*
 * The slots:
 * - slot 0 has no client;
 * - the client of a slot has that slot's number, and slot_uids has its user;
 * - each client with a slot is that slot's client.
 */
void slots_check(const struct daemon *d)
{
	unsigned used = 0, held = 0;
	const struct list *m;

	INVARIANT(!d->by_slot[0], "slot 0 of process %d", (int)d->by_slot[0]->pid);
	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
		const struct client *c = d->by_slot[slot];

		if (!c)
			continue;
		used++;
		INVARIANT(c->slot == slot && d->slot_uids[slot] == c->uid + UINT64_C(1),
			  "slot %u: process %d of user %u has slot %u, its user is %lld", slot,
			  (int)c->pid, (unsigned)c->uid, c->slot,
			  (long long)d->slot_uids[slot] - 1);
	}
	list_for_each(m, &d->clients) {
		const struct client *c = container_of(m, struct client, in_daemon);

		if (!c->slot)
			continue;
		held++;
		INVARIANT(c->slot <= CTL_SLOT_MAX && d->by_slot[c->slot] == c,
			  "process %d, slot %u", (int)c->pid, c->slot);
	}
	INVARIANT(used == held, "%u slots in use, %u clients have one", used, held);
}
#endif
