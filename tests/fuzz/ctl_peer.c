/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/fdmsg.h"
#include "ctl_check.h"
#include "ctl_host.h"
#include "daemon/client.h"
#include "daemon/daemon.h"

/* Requests of peer_create_channel have these and higher seqs. */
#define FIRST_CHANNEL 0x70000000u
#define RETURN_SEQ    3u

void peer_init(struct peer *p)
{
	*p = (struct peer){ .sock = -1, .token = -1, .fd_store = -1, .store = -1, .next_end = -1 };
	for (unsigned i = 0; i < PEER_NUMBERS; i++)
		p->ends[i] = -1;
}

bool peer_is_there(const struct peer *p)
{
	return p->sock >= 0;
}

void peer_call(struct peer *p, struct daemon *d, uid_t uid, unsigned process)
{
	struct ucred who = { .pid = 1000 + (pid_t)process, .uid = uid };
	int ends[2], bytes = 16384;

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
	/* Small, so that it is soon full. */
	setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	host_connected(ends[1], process);
	require(!client_create(d, ends[1], &who));
	p->daemon = d;
	p->sock = ends[0];
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* It may leave its token and descriptor store to another peer. */
void peer_hang_up(struct peer *p)
{
	drop(&p->sock);
	drop(&p->token);
	drop(&p->fd_store);
	drop(&p->store);
	drop(&p->next_end);
	for (unsigned i = 0; i < PEER_NUMBERS; i++)
		drop(&p->ends[i]);
	peer_init(p);
}

void peer_send(struct peer *p, const void *message, size_t length, int *fds, unsigned count)
{
	if (length)
		fdmsg_send(p->sock, message, length, fds, count);
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

void peer_join_cm(struct peer *p)
{
	struct ctl_cm_hello hello = {
		.greeting = { { CTL_CM_HELLO, 1 }, CTL_MAGIC, CTL_VERSION },
	};
	struct ctl_cm_ask begin = { .header = { CTL_CM_BEGIN, 2 } };
	int store = memfd_create("fuzz-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	require(store >= 0 && !ftruncate(store, CTL_CM_STORE_BYTES));
	fcntl(store, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	p->is_cm = true;
	drop(&p->store);
	p->store = dup(store);
	peer_send(p, &hello, sizeof(hello), &store, 1);
	peer_send(p, &begin, sizeof(begin), NULL, 0);
}

void peer_come_back(struct peer *p, uid_t uid, unsigned process, uint32_t session, int store_fd)
{
	struct ctl_cm_hello hello = {
		.greeting = { { CTL_CM_HELLO, 1 }, CTL_MAGIC, CTL_VERSION },
		.session = session,
	};
	struct ctl_cm_ask begin = { .header = { CTL_CM_BEGIN, 2 } };
	int fds[2] = { dup(store_fd), dup(p->token >= 0 ? p->token : store_fd) };

	drop(&p->sock);
	/* So that the numbers are free, as with another daemon. */
	check_rest(p->daemon);
	drop(&p->store);
	p->store = store_fd;
	p->deaf = false;
	peer_call(p, p->daemon, uid, process);
	peer_send(p, &hello, sizeof(hello), fds, 2);
	for (unsigned i = 0; i < PEER_NUMBERS; i++) {
		struct ctl_cm_ask channel = { .header = { CTL_CM_RETURN_CHANNEL, RETURN_SEQ },
					      .channel = p->channels[i] };
		int event_fd = p->ends[i] >= 0 ? dup(p->ends[i]) : -1;

		if (event_fd >= 0)
			peer_send(p, &channel, sizeof(channel), &event_fd, 1);
	}
	peer_send(p, &begin, sizeof(begin), NULL, 0);
}

static void keep(int *place, struct fdmsg *m, unsigned i)
{
	if (i >= m->fd_count)
		return;
	drop(place);
	*place = fdmsg_take_fd(m, i);
}

static void learn(struct peer *p, struct fdmsg *m)
{
	switch (m->body.header.type) {
	case CTL_WELCOME:
		p->slot = m->body.welcome.slot;
		keep(&p->token, m, 0);
		break;
	case CTL_PORT_REPLY:
		keep(&p->fd_store, m, 1);
		break;
	case CTL_CM_EVENT:
		if (m->body.cm_event.answer)
			break;
		p->event = m->body.cm_event;
		p->has_event = true;
		require(p->event.kind < CTL_CM_EVENT_KINDS);
		if (p->event.kind == CTL_CM_CONNECT_REQUEST)
			p->ids[p->id_count++ % PEER_NUMBERS] = p->event.id;
		break;
	case CTL_CM_REPLY:
		if (!m->body.cm_reply.number || m->body.header.seq == RETURN_SEQ)
			break;
		/* seq names the request that it answers. */
		if (m->body.header.seq >= FIRST_CHANNEL) {
			unsigned at = p->channel_count++ % PEER_NUMBERS;

			p->channels[at] = m->body.cm_reply.number;
			drop(&p->ends[at]);
			/* The peer was deaf, and has forgotten its other requests. */
			if (m->body.header.seq != FIRST_CHANNEL + p->asked)
				break;
			p->ends[at] = p->next_end;
			p->next_end = -1;
		} else {
			p->ids[p->id_count++ % PEER_NUMBERS] = m->body.cm_reply.number;
		}
		break;
	default:
		break;
	}
}

void peer_read(struct peer *p)
{
	struct fdmsg m;
	int rc = -EAGAIN;

	while (p->sock >= 0 && !p->deaf && !(rc = fdmsg_recv(p->sock, &m))) {
		require(m.len >= sizeof(struct ctl_header) && m.len <= sizeof(m.body));
		learn(p, &m);
		p->reply = m.body;
		fdmsg_close_fds(&m);
	}
	if (p->sock >= 0 && !p->deaf && rc != -EAGAIN)
		peer_hang_up(p);
}

/* Reads the answer at once, because it has numbers that later messages use. */
static void ask(struct peer *p, const void *message, size_t length, int *fds, unsigned count)
{
	if (p->sock < 0)
		return;
	peer_send(p, message, length, fds, count);
	check_rest(p->daemon);
	peer_read(p);
}

void peer_create_channel(struct peer *p)
{
	struct ctl_cm_ask a = { .header = { CTL_CM_CREATE_CHANNEL, FIRST_CHANNEL + ++p->asked } };
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name);
	int event_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), copy;

	require(event_fd >= 0 && !bind(event_fd, (struct sockaddr *)&name, sizeof(sa_family_t)));
	getsockname(event_fd, (struct sockaddr *)&name, &len);
	require(!connect(event_fd, (struct sockaddr *)&name, len));
	copy = dup(event_fd);
	drop(&p->next_end);
	p->next_end = event_fd;
	ask(p, &a, sizeof(a), &copy, 1);
}

static uint32_t last_id(const struct peer *p)
{
	return p->id_count ? p->ids[(p->id_count - 1) % PEER_NUMBERS] : 0;
}

static uint32_t last_channel(const struct peer *p)
{
	return p->channel_count ? p->channels[(p->channel_count - 1) % PEER_NUMBERS] : 0;
}

static void create_id(struct peer *p, uint16_t space)
{
	struct ctl_cm_ask a = { .header = { CTL_CM_CREATE_ID, CTL_CM_CREATE_ID }, .value = space };

	if (!p->channel_count)
		peer_create_channel(p);
	a.channel = last_channel(p);
	ask(p, &a, sizeof(a), NULL, 0);
}

void peer_listen(struct peer *p, const struct ctl_cm_address *local, uint16_t space)
{
	struct ctl_cm_bind bind = { .header = { CTL_CM_BIND, 9 }, .local = *local };
	struct ctl_cm_ask listen = { .header = { CTL_CM_LISTEN, 9 }, .value = 2 };

	create_id(p, space);
	bind.id = listen.id = last_id(p);
	ask(p, &bind, sizeof(bind), NULL, 0);
	ask(p, &listen, sizeof(listen), NULL, 0);
}

void peer_connect(struct peer *p, const struct ctl_cm_address *local,
		  const struct ctl_cm_address *remote, uint16_t space)
{
	struct ctl_cm_request request = {
		.header = { CTL_CM_CONNECT, 9 },
		.local = *local,
		.remote = *remote,
		.end = { .qpn = 5, .ack_timeout = 14 },
	};

	create_id(p, space);
	request.id = last_id(p);
	ask(p, &request, sizeof(request), NULL, 0);
}

void peer_go_on(struct peer *p, uint8_t how)
{
	struct ctl_cm_ask a = { .header = { CTL_CM_GET_EVENT, 9 },
				.channel = p->channels[how % PEER_NUMBERS],
				.id = p->event.id };
	struct ctl_cm_request request = { .header = { CTL_CM_ACCEPT, 9 },
					  .id = p->event.id,
					  .end = { .qpn = 6 } };

	if (!p->has_event) {
		ask(p, &a, sizeof(a), NULL, 0);
		return;
	}
	p->has_event = false;
	switch (p->event.kind) {
	case CTL_CM_CONNECT_REQUEST:
		if (how & 0x80)
			request.header.type = CTL_CM_REJECT;
		ask(p, &request, sizeof(request), NULL, 0);
		return;
	case CTL_CM_CONNECT_RESPONSE:
		a.header.type = how & 0x80 ? CTL_CM_DISCONNECT : CTL_CM_READY;
		break;
	case CTL_CM_ESTABLISHED:
	case CTL_CM_DISCONNECTED:
		a.header.type = how & 0x80 ? CTL_CM_DESTROY_ID : CTL_CM_DISCONNECT;
		break;
	default:
		a.header.type = CTL_CM_DESTROY_ID;
		break;
	}
	ask(p, &a, sizeof(a), NULL, 0);
}

void peer_meddle(struct peer *p, uint8_t how)
{
	int end = p->ends[how % PEER_NUMBERS], extra;
	char bytes[64];

	if (end < 0)
		return;
	p->meddles = true;
	switch (how >> 4 & 3) {
	case 0:
		recv(end, bytes, sizeof(bytes), MSG_DONTWAIT);
		break;
	case 1:
		send(end, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case 2:
		extra = dup(end);
		fdmsg_send(end, bytes, 1, &extra, 1);
		close(extra);
		break;
	default:
		shutdown(end, SHUT_RDWR);
		break;
	}
}
