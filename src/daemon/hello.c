/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/hello.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory_file.h"
#include "daemon/counts.h"
#include "daemon/slots.h"
#include "event/receive_queue.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static struct ctl_welcome make_welcome(uint32_t seq)
{
	return (struct ctl_welcome){
		.greeting = { .header = { .type = CTL_WELCOME, .seq = seq },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.pid = getpid(),
	};
}

void hello_refuse(struct client *c, uint32_t seq, int status)
{
	struct ctl_welcome welcome = make_welcome(seq);

	welcome.status = status;
	client_post(c, &welcome, sizeof(welcome), NULL, 0);
	client_disconnect(c, strerror(status));
}

void hello_welcome(struct client *c, uint32_t seq, unsigned number, int token_fd)
{
	struct fdref *token = token_fd >= 0 ? fdref_create(token_fd) : NULL;
	struct ctl_welcome welcome = make_welcome(seq);

	welcome.slot = number;
	if (client_post(c, &welcome, sizeof(welcome), &token, token ? 1 : 0))
		client_disconnect(c, "its token cannot be sent");
	fdref_put(token);
}

static void on_death(struct loop_source *source, uint32_t events)
{
	client_disconnect(container_of(source, struct client, on_death), NULL);
}

int hello_watch_death(struct client *c)
{
	socklen_t len = sizeof(c->pid_fd);
	int rc;

	if (c->pid <= 0)
		return 0;
	if (getsockopt(c->sock, SOL_SOCKET, SO_PEERPIDFD, &c->pid_fd, &len) < 0) {
		c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
		if (c->pid_fd < 0) {
			rc = -errno;
			return rc == -ENOSYS || rc == -EPERM || rc == -EINVAL ? 0 : rc;
		}
	}
	c->on_death.on_ready = on_death;
	rc = loop_watch(&c->daemon->loop, c->pid_fd, EPOLLIN, &c->on_death);
	if (rc) {
		close(c->pid_fd);
		c->pid_fd = -1;
	}
	return rc;
}

/* Tools print it to a terminal, so it gets no control characters. */
static void keep_comm(struct client *c, const char *comm)
{
	memcpy(c->comm, comm, sizeof(c->comm));
	c->comm[sizeof(c->comm) - 1] = '\0';
	for (char *p = c->comm; *p; p++) {
		if (!isprint((unsigned char)*p))
			*p = '?';
	}
}

/* Takes the descriptors out of m, also when it fails. */
static int keep_fds(struct client *c, struct fdmsg *m)
{
	c->arena = fdref_create_of_client(c->uid, fdmsg_take_fd(m, 0));
	c->wake = fdref_create_of_client(c->uid, fdmsg_take_fd(m, 1));
	c->heap = fdref_create_of_client(c->uid, fdmsg_take_fd(m, 2));
	c->links = calloc(CTL_SLOT_MAX + 1, sizeof(*c->links));
	return c->arena && c->wake && c->heap && c->links ? 0 : -ENOMEM;
}

static int take_slot(struct client *c, const struct ctl_hello *hello, const struct fdmsg *m,
		     int *token_fd)
{
	int rc = slots_admit(c, hello->directory);

	*token_fd = -1;
	if (rc)
		return rc;
	if (m->fd_count == 4)
		return slots_adopt(c, hello->wanted_slot, m->fds[3]);
	return hello->wanted_slot ? slots_claim(c, hello->wanted_slot, token_fd)
				  : slots_take(c, token_fd);
}

void hello_on_hello(struct client *c, struct fdmsg *m)
{
	struct ctl_hello hello = m->body.hello;
	int token_fd;
	int rc = 0;

	if (hello.greeting.magic != CTL_MAGIC)
		rc = -EPROTO;
	/* Peers map the arena and the heap: they must not die of SIGBUS there. */
	else if (!memory_file_is_fixed(m->fds[0]) || !memory_file_is_fixed(m->fds[2]) ||
		 !receive_queue_is_anonymous(m->fds[1]))
		rc = -EINVAL;
	if (!rc)
		rc = keep_fds(c, m);
	if (!rc)
		rc = hello_watch_death(c);
	if (!rc)
		rc = take_slot(c, &hello, m, &token_fd);
	if (rc) {
		hello_refuse(c, hello.greeting.header.seq, -rc);
		return;
	}
	counts_on_slot(c);
	c->since_ns = (int64_t)clock_realtime_ns();
	keep_comm(c, hello.comm);
	client_set_role(c, CLIENT_PROCESS);
	hello_welcome(c, hello.greeting.header.seq, c->slot, token_fd);
}

void hello_on_observe(struct client *c, struct fdmsg *m)
{
	if (m->body.observe.greeting.magic != CTL_MAGIC) {
		hello_refuse(c, m->body.header.seq, EPROTO);
		return;
	}
	client_set_role(c, CLIENT_OBSERVER);
	hello_welcome(c, m->body.header.seq, 0, -1);
}
