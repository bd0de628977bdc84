/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/send_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/fdmsg.h"

struct queued {
	struct list in_send_queue;
	size_t len;
	struct fdref *fds[CTL_FDS_MAX];
	unsigned fd_count;
	union ctl_message body;
};

void send_queue_init(struct send_queue *q)
{
	list_init(&q->messages);
	q->count = 0;
}

static struct queued *first(struct send_queue *q)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed one is in no list */
	return container_of(q->messages.next, struct queued, in_send_queue);
}

static void drop(struct send_queue *q, struct queued *m)
{
	list_del(&m->in_send_queue);
	q->count--;
	for (unsigned i = 0; i < m->fd_count; i++)
		fdref_put(m->fds[i]);
	free(m);
}

void send_queue_fini(struct send_queue *q)
{
	while (!list_empty(&q->messages))
		drop(q, first(q));
}

static int send_now(int sock, const void *message, size_t len, struct fdref *const *fds,
		    unsigned fd_count)
{
	int raw[CTL_FDS_MAX];

	for (unsigned i = 0; i < fd_count; i++)
		raw[i] = fds[i]->fd;
	return fdmsg_send(sock, message, len, raw, fd_count);
}

static int queue(struct send_queue *q, const void *message, size_t len, struct fdref *const *fds,
		 unsigned fd_count)
{
	struct queued *m;

	if (q->count >= SEND_QUEUE_MAX)
		return -ENOBUFS;
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	memcpy(&m->body, message, len);
	m->len = len;
	m->fd_count = fd_count;
	for (unsigned i = 0; i < fd_count; i++)
		m->fds[i] = fdref_get(fds[i]);
	list_add_tail(&q->messages, &m->in_send_queue);
	q->count++;
	return 0;
}

int send_queue_post(struct send_queue *q, int sock, const void *message, size_t len,
		    struct fdref *const *fds, unsigned fd_count)
{
	if (list_empty(&q->messages)) {
		int rc = send_now(sock, message, len, fds, fd_count);

		if (!fdmsg_is_delayed(rc) || rc == -ETOOMANYREFS)
			return rc;
	}
	return queue(q, message, len, fds, fd_count);
}

int send_queue_on_writable(struct send_queue *q, int sock)
{
	while (!list_empty(&q->messages)) {
		struct queued *m = first(q);
		int rc = send_now(sock, &m->body, m->len, m->fds, m->fd_count);

		if (rc)
			return rc == -EAGAIN ? 0 : rc;
		drop(q, m);
	}
	return 0;
}
