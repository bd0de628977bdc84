/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "harness.h"

struct fdmsg cm_ask_with(int sock, const void *request, size_t len, const int *fds,
			 unsigned fd_count)
{
	struct fdmsg m;

	CHECK(!fdmsg_send(sock, request, len, fds, fd_count));
	CHECK(!fdmsg_wait(sock, deadline_in_ms(PATIENCE_MS), &m));
	return m;
}

struct ctl_cm_reply cm_ask(int sock, const void *request, size_t len)
{
	return cm_ask_with(sock, request, len, NULL, 0).body.cm_reply;
}

int cm_say(int sock, enum ctl_type type, uint32_t id, uint32_t channel)
{
	struct ctl_cm_ask request = { .header = { .type = type }, .id = id, .channel = channel };

	return cm_ask(sock, &request, sizeof(request)).status;
}

int cm_make_store(void)
{
	int fd = memfd_create("test-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, CTL_CM_STORE_BYTES));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	return fd;
}

struct ctl_cm_hello cm_hello(uint32_t session)
{
	return (struct ctl_cm_hello){
		.greeting = { .header = { .type = CTL_CM_HELLO, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.session = session,
	};
}

int cm_join(void)
{
	return cm_join_by(raw_connect());
}

int cm_join_by(int sock)
{
	struct ctl_cm_hello hello = cm_hello(0);
	struct ctl_cm_ask begin = { .header = { .type = CTL_CM_BEGIN, .seq = 1 } };
	int store = cm_make_store();
	struct fdmsg m = cm_ask_with(sock, &hello, sizeof(hello), &store, 1);

	CHECK(!m.body.welcome.status && m.fd_count == 1);
	fdmsg_close_fds(&m);
	close(store);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	return sock;
}

int cm_make_event_fd(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)));
	CHECK(!getsockname(fd, (struct sockaddr *)&name, &len));
	CHECK(!connect(fd, (struct sockaddr *)&name, len));
	return fd;
}

int cm_create_channel(int sock, int event_fd, uint32_t *number)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_CREATE_CHANNEL } };
	struct ctl_cm_reply r =
		cm_ask_with(sock, &request, sizeof(request), &event_fd, 1).body.cm_reply;

	*number = r.number;
	return r.status;
}

uint32_t cm_make_channel(int sock)
{
	int event_fd = cm_make_event_fd();
	uint32_t channel;

	CHECK(!cm_create_channel(sock, event_fd, &channel));
	close(event_fd);
	return channel;
}

uint32_t cm_make_id(int sock, uint32_t channel)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_CREATE_ID },
				      .channel = channel,
				      .value = CTL_CM_TCP };
	struct ctl_cm_reply r = cm_ask(sock, &request, sizeof(request));

	CHECK(!r.status);
	return r.number;
}

static const struct ctl_cm_address loopback = {
	.gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
	.family = AF_INET,
};

uint32_t cm_listen(int sock, uint32_t channel, struct ctl_cm_address *at)
{
	return cm_listen_at(sock, channel, &loopback, at);
}

uint32_t cm_listen_at(int sock, uint32_t channel, const struct ctl_cm_address *local,
		      struct ctl_cm_address *at)
{
	struct ctl_cm_bind bind = { .header = { .type = CTL_CM_BIND }, .local = *local };
	struct ctl_cm_reply r;

	bind.id = cm_make_id(sock, channel);
	r = cm_ask(sock, &bind, sizeof(bind));
	CHECK(!r.status && r.local.port);
	*at = r.local;
	CHECK(!cm_say(sock, CTL_CM_LISTEN, bind.id, 0));
	return bind.id;
}

int cm_connect(int sock, uint32_t id, const struct ctl_cm_address *to)
{
	return cm_connect_from(sock, id, &loopback, to);
}

int cm_connect_from(int sock, uint32_t id, const struct ctl_cm_address *from,
		    const struct ctl_cm_address *to)
{
	struct ctl_cm_request request = {
		.header = { .type = CTL_CM_CONNECT },
		.id = id,
		.local = *from,
		.remote = *to,
		.end = { .qpn = 5 },
	};

	return cm_ask(sock, &request, sizeof(request)).status;
}

int cm_raise(int sock, uint32_t id)
{
	struct ctl_cm_raise request = { .header = { .type = CTL_CM_RAISE },
					.id = id,
					.kind = CTL_CM_ADDR_RESOLVED };

	return cm_ask(sock, &request, sizeof(request)).status;
}

struct ctl_cm_event cm_event(int sock, uint32_t channel)
{
	struct ctl_cm_ask get = { .header = { .type = CTL_CM_GET_EVENT }, .channel = channel };

	return cm_ask_with(sock, &get, sizeof(get), NULL, 0).body.cm_event;
}

struct ctl_cm_event cm_next(int sock, uint32_t channel)
{
	int64_t end = now_ms() + PATIENCE_MS;
	struct ctl_cm_event e;

	while ((e = cm_event(sock, channel)).answer == EAGAIN) {
		CHECK(now_ms() < end);
		usleep(200);
	}
	CHECK(!e.answer);
	return e;
}

struct ctl_cm_event cm_await(int sock, uint32_t channel, enum ctl_cm_event_kind kind)
{
	struct ctl_cm_event e = cm_next(sock, channel);

	CHECK(e.kind == kind);
	return e;
}

int64_t cm_round(int passive, int active)
{
	uint32_t in = cm_make_channel(passive), out = cm_make_channel(active), listener, id;
	struct ctl_cm_request accept = { .header = { .type = CTL_CM_ACCEPT }, .end = { .qpn = 6 } };
	int64_t since = now_ms();
	struct ctl_cm_address at;

	listener = cm_listen(passive, in, &at);
	id = cm_make_id(active, out);
	CHECK(!cm_connect(active, id, &at));
	accept.id = cm_await(passive, in, CTL_CM_CONNECT_REQUEST).id;
	CHECK(!cm_ask(passive, &accept, sizeof(accept)).status);
	cm_await(active, out, CTL_CM_CONNECT_RESPONSE);
	CHECK(!cm_say(active, CTL_CM_READY, id, 0));
	cm_await(passive, in, CTL_CM_ESTABLISHED);
	CHECK(!cm_say(active, CTL_CM_DISCONNECT, id, 0));
	cm_await(passive, in, CTL_CM_DISCONNECTED);
	CHECK(!cm_say(passive, CTL_CM_DISCONNECT, accept.id, 0));
	cm_await(active, out, CTL_CM_DISCONNECTED);
	CHECK(!cm_say(active, CTL_CM_DESTROY_ID, id, 0));
	CHECK(!cm_say(passive, CTL_CM_DESTROY_ID, accept.id, 0));
	CHECK(!cm_say(passive, CTL_CM_DESTROY_ID, listener, 0));
	CHECK(!cm_say(passive, CTL_CM_DESTROY_CHANNEL, 0, in));
	CHECK(!cm_say(active, CTL_CM_DESTROY_CHANNEL, 0, out));
	return now_ms() - since;
}
