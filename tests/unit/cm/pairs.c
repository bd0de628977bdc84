/* SPDX-License-Identifier: BSD-2-Clause */
#include "pairs.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct sockaddr_in pairs_v4(uint32_t address, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(address),
	};
}

struct sockaddr_in6 pairs_v6(const char *address, uint16_t port)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	CHECK(inet_pton(AF_INET6, address, &sa.sin6_addr) == 1);
	return sa;
}

bool fails_with(int rc, int error)
{
	return rc == -1 && errno == error;
}

struct rdma_cm_event *await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	CHECK(has_event(channel, PATIENCE_MS));
	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		print_error("%s (%d), not %s\n", rdma_event_str(event->event), event->status,
			    rdma_event_str(type));
	CHECK(event->event == type);
	return event;
}

struct rdma_cm_id *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = await_event(channel, type);
	struct rdma_cm_id *id = event->id;

	CHECK(!rdma_ack_cm_event(event));
	return id;
}

bool has_event(struct rdma_event_channel *channel, int wait_ms)
{
	struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };

	return poll(&pfd, 1, wait_ms) == 1 && pfd.revents == POLLIN;
}

void check_data(const struct rdma_conn_param *got, size_t length, const uint8_t *sent,
		size_t sent_length)
{
	const uint8_t *bytes = got->private_data;

	CHECK(bytes && got->private_data_len == length);
	for (size_t i = 0; i < length; i++)
		CHECK(bytes[i] == (i < sent_length ? sent[i] : 0));
}

void pair_route(struct rdma_event_channel *channel, struct rdma_cm_id *id,
		struct rdma_cm_id *listener)
{
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 0);

	to.sin_port = rdma_get_src_port(listener);
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 1000));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void pair_open(struct pair *p, enum rdma_port_space ps)
{
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);

	memset(p, 0, sizeof(*p));
	p->ps = ps;
	p->active = rdma_create_event_channel();
	p->passive = rdma_create_event_channel();
	CHECK(p->active && p->passive);
	CHECK(!rdma_create_id(p->passive, &p->listener, p, ps));
	CHECK(!rdma_bind_addr(p->listener, (struct sockaddr *)&at));
	CHECK(!rdma_listen(p->listener, 4));
	CHECK(!rdma_create_id(p->active, &p->id, p, ps));
	pair_route(p->active, p->id, p->listener);
}

void pair_make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;

	/* As on the stack of a program: what pads it may be anything. */
	memset(&init, 0xff, sizeof(init));
	init.qp_context = NULL;
	init.send_cq = init.recv_cq = NULL;
	init.srq = NULL;
	init.cap = (struct ibv_qp_cap){ 8, 8, 2, 2, 16 };
	init.qp_type = id->qp_type;
	init.sq_sig_all = 1;
	CHECK(!rdma_create_qp(id, NULL, &init));
	CHECK(init.cap.max_send_wr >= 8 && init.send_cq && init.recv_cq);
}

struct rdma_cm_event *pair_take_request(struct pair *p)
{
	struct rdma_cm_event *event = await_event(p->passive, RDMA_CM_EVENT_CONNECT_REQUEST);

	CHECK(event->listen_id == p->listener && event->id != p->listener);
	p->child = event->id;
	return event;
}

void pair_connect(struct pair *p)
{
	pair_make_qp(p->id);
	CHECK(!rdma_connect(p->id, NULL));
	CHECK(!rdma_ack_cm_event(pair_take_request(p)));
	pair_make_qp(p->child);
	CHECK(!rdma_accept(p->child, NULL));
	expect_event(p->active, RDMA_CM_EVENT_ESTABLISHED);
	if (p->ps != RDMA_PS_UDP)
		expect_event(p->passive, RDMA_CM_EVENT_ESTABLISHED);
}

static void end(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

void pair_close(struct pair *p)
{
	end(p->id);
	end(p->child);
	end(p->listener);
	rdma_destroy_event_channel(p->active);
	rdma_destroy_event_channel(p->passive);
}

pid_t pairs_watching_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	pid_t found = 0;

	CHECK(tasks);
	while (!found && (task = readdir(tasks))) {
		char path[300], name[32] = "";
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		comm = fopen(path, "r");
		if (comm && fgets(name, sizeof(name), comm) && !strcmp(name, "verbatim-cm\n"))
			found = atoi(task->d_name);
		if (comm)
			fclose(comm);
	}
	closedir(tasks);
	return found;
}
