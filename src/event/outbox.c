#include "event/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/fdmsg.h"

struct queued {
	struct list in_outbox;
	size_t len;
	struct fdref *fds[CTL_FDS_MAX];
	unsigned fd_count;
	union ctl_message body;
};

void outbox_init(struct outbox *o)
{
	list_init(&o->messages);
	o->count = 0;
}

static struct queued *first(struct outbox *o)
{
	return container_of(o->messages.next, struct queued, in_outbox);
}

static void drop(struct outbox *o, struct queued *q)
{
	list_del(&q->in_outbox);
	o->count--;
	for (unsigned i = 0; i < q->fd_count; i++)
		fdref_put(q->fds[i]);
	free(q);
}

void outbox_fini(struct outbox *o)
{
	while (!list_empty(&o->messages))
		drop(o, first(o));
}

static int send_now(int sock, const void *message, size_t len, struct fdref *const *fds,
		    unsigned fd_count)
{
	int raw[CTL_FDS_MAX];

	for (unsigned i = 0; i < fd_count; i++)
		raw[i] = fds[i]->fd;
	return fdmsg_send(sock, message, len, raw, fd_count);
}

static int queue(struct outbox *o, const void *message, size_t len, struct fdref *const *fds,
		 unsigned fd_count)
{
	struct queued *q;

	if (o->count >= OUTBOX_MAX)
		return -ENOBUFS;
	q = malloc(sizeof(*q));
	if (!q)
		return -ENOMEM;
	memcpy(&q->body, message, len);
	q->len = len;
	q->fd_count = fd_count;
	for (unsigned i = 0; i < fd_count; i++)
		q->fds[i] = fdref_get(fds[i]);
	list_add_tail(&o->messages, &q->in_outbox);
	o->count++;
	return 0;
}

int outbox_post(struct outbox *o, int sock, const void *message, size_t len,
		struct fdref *const *fds, unsigned fd_count)
{
	if (list_empty(&o->messages)) {
		int rc = send_now(sock, message, len, fds, fd_count);

		if (rc != -EAGAIN)
			return rc;
	}
	return queue(o, message, len, fds, fd_count);
}

int outbox_on_writable(struct outbox *o, int sock)
{
	while (!list_empty(&o->messages)) {
		struct queued *q = first(o);
		int rc = send_now(sock, &q->body, q->len, q->fds, q->fd_count);

		if (rc)
			return rc == -EAGAIN ? 0 : rc;
		drop(o, q);
	}
	return 0;
}

bool outbox_holds(const struct outbox *o, const void *message, size_t len)
{
	struct list *m;

	list_for_each(m, &o->messages) {
		const struct queued *q = container_of(m, struct queued, in_outbox);

		if (q->len == len && !memcmp(&q->body, message, len))
			return true;
	}
	return false;
}
