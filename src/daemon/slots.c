#include "daemon/slots.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/intake.h"
#include "daemon/ports.h"

#define PROBES_MAX 64

static void give(struct client *c, unsigned slot)
{
	struct daemon *d = c->daemon;

	c->slot = slot;
	d->by_slot[slot] = c;
	d->slot_uids[slot] = c->uid + UINT64_C(1);
	d->slots_used++;
	daemon_on_slot_change(d);
}

static int make_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static bool has_token(struct daemon *d, int fd, unsigned slot)
{
	struct sockname name;

	sockname_of_slot(&d->space, slot, &name);
	return !connect(fd, (struct sockaddr *)&name.addr, name.len);
}

static bool has_its_share(struct daemon *d, uid_t uid)
{
	unsigned mine = 0, used = 0;
	int fd = make_socket();

	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
		if (!d->by_slot[slot] && d->slot_uids[slot] && fd >= 0 && !has_token(d, fd, slot))
			d->slot_uids[slot] = 0;
		used += d->slot_uids[slot] != 0;
		mine += d->slot_uids[slot] == uid + UINT64_C(1);
	}
	if (fd >= 0)
		close(fd);
	return mine >= CTL_SLOT_MAX - used;
}

int slots_take(struct client *c, int *token_fd)
{
	struct daemon *d = c->daemon;
	int fd;

	if (d->scope == DAEMON_OF_SYSTEM && has_its_share(d, c->uid))
		return -EDQUOT;
	fd = make_socket();
	if (fd < 0)
		return -errno;
	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
		struct sockname name;

		if (d->by_slot[slot] || !ports_suit(d, slot, c->uid))
			continue;
		sockname_of_slot(&d->space, slot, &name);

		int rc = sockname_bind(fd, &name);

		if (!rc) {
			ports_on_new_slot(d, slot);
			give(c, slot);
			*token_fd = fd;
			return 0;
		}
		/* Held by a process that has not come back yet, or by a dead one's child. */
		if (rc != -EADDRINUSE) {
			close(fd);
			return rc;
		}
	}
	close(fd);
	return -ENOSPC;
}

static bool is_named(int fd, const struct sockname *name)
{
	struct sockname actual = { .len = sizeof(actual.addr) }; /* zero beyond what is filled in */
	int type;
	socklen_t len = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_DGRAM)
		return false;
	return !getsockname(fd, (struct sockaddr *)&actual.addr, &actual.len) &&
	       sockname_equal(&actual, name);
}

/*
 * The name alone proves nothing: another network namespace can have the same. What is sent to the
 * name from here has to arrive at the token.
 */
static int probe(uid_t uid, int sender, int token_fd, const struct sockname *name)
{
	char nonce[16], got[sizeof(nonce)];
	bool sent = false;

	if (getrandom(nonce, sizeof(nonce), GRND_NONBLOCK) != sizeof(nonce))
		return -EAGAIN;
	for (int i = 0; i < PROBES_MAX; i++) {
		if (!sent) {
			sent = sendto(sender, nonce, sizeof(nonce), MSG_DONTWAIT | MSG_NOSIGNAL,
				      (const struct sockaddr *)&name->addr, name->len) >= 0;
			/* Full of what strangers sent: make room. */
			if (!sent && errno != EAGAIN)
				return -EPERM;
		}

		ssize_t n = intake_bytes(uid, token_fd, got, sizeof(got));

		if (n == sizeof(got) && !memcmp(got, nonce, sizeof(got)))
			return 0;
		if (n < 0 && sent)
			return -EPERM;
	}
	return -EPERM;
}

int slots_adopt(struct client *c, unsigned slot, int token_fd)
{
	struct sockname name;
	int sender;
	int rc;

	if (slot < 1 || slot > CTL_SLOT_MAX)
		return -EPROTO;
	if (c->daemon->by_slot[slot])
		return -EADDRINUSE;
	sockname_of_slot(&c->daemon->space, slot, &name);
	if (!is_named(token_fd, &name))
		return -EPERM;
	sender = make_socket();
	if (sender < 0)
		return -errno;
	rc = probe(c->uid, sender, token_fd, &name);
	close(sender);
	if (!rc)
		give(c, slot);
	return rc;
}

bool slots_is_held(struct daemon *d, unsigned slot)
{
	int fd = make_socket();
	bool held = fd < 0 || has_token(d, fd, slot);

	if (fd >= 0)
		close(fd);
	return held;
}

bool slots_any_away(struct daemon *d)
{
	int fd = make_socket();
	bool away = false;

	for (unsigned slot = 1; fd >= 0 && !away && slot <= CTL_SLOT_MAX; slot++) {
		if (!d->by_slot[slot])
			away = has_token(d, fd, slot);
	}
	if (fd >= 0)
		close(fd);
	return away;
}

void slots_on_death(struct client *c)
{
	struct daemon *d = c->daemon;

	if (!c->slot)
		return;
	d->by_slot[c->slot] = NULL;
	d->slots_used--;
	daemon_on_slot_change(d);
}
