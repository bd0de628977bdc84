/* SPDX-License-Identifier: BSD-2-Clause */
#include "rnic.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#include "side.h"

#define WAIT_MS 10000

bool over_iwarp(void)
{
	const char *transport = getenv("VERBATIM_TRANSPORT");

	return transport && !strcmp(transport, "iwarp");
}

static struct {
	struct rdma_event_channel *(*create_event_channel)(void);
	int (*create_id)(struct rdma_event_channel *, struct rdma_cm_id **, void *,
			 enum rdma_port_space);
	int (*bind_addr)(struct rdma_cm_id *, struct sockaddr *);
	int (*listen)(struct rdma_cm_id *, int);
	__be16 (*get_src_port)(struct rdma_cm_id *);
	int (*get_cm_event)(struct rdma_event_channel *, struct rdma_cm_event **);
	int (*ack_cm_event)(struct rdma_cm_event *);
	int (*accept)(struct rdma_cm_id *, struct rdma_conn_param *);
	int (*resolve_addr)(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
	int (*resolve_route)(struct rdma_cm_id *, int);
	int (*connect)(struct rdma_cm_id *, struct rdma_conn_param *);
} cm;

static void open_library(void)
{
	static const struct {
		const char *name;
		void **at;
	} calls[] = {
#define CALL(name) { "rdma_" #name, (void **)&cm.name }
		CALL(create_event_channel), CALL(create_id),	 CALL(bind_addr),    CALL(listen),
		CALL(get_src_port),	    CALL(get_cm_event),	 CALL(ack_cm_event), CALL(accept),
		CALL(resolve_addr),	    CALL(resolve_route), CALL(connect),
	};
	void *library = dlopen("librdmacm.so.1", RTLD_NOW);

	REQUIRE(library, "dlopen: %s", dlerror());
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		*calls[i].at = dlsym(library, calls[i].name);
		REQUIRE(*calls[i].at, "%s: %s", calls[i].name, dlerror());
	}
}

/* One connection. Its identifiers stay until the process ends, and with them the connection. */
struct op_rnic {
	int qp;
	uint16_t port;			    /* of the listener, network order */
	struct rdma_event_channel *channel; /* the listener's process's own */
};

static struct rdma_cm_id *make_id(struct rdma_event_channel **channel)
{
	struct rdma_cm_id *id;

	open_library();
	*channel = cm.create_event_channel();
	REQUIRE(*channel, "rdma_create_event_channel: %s", strerror(errno));
	REQUIRE(!cm.create_id(*channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id: %s",
		strerror(errno));
	return id;
}

/* The identifier of the next event, which is of this type. */
static struct rdma_cm_id *await(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	REQUIRE(!cm.get_cm_event(channel, &event), "rdma_get_cm_event: %s", strerror(errno));
	REQUIRE(event->event == type, "event %d with status %d in place of %d", event->event,
		event->status, type);
	id = event->id;
	cm.ack_cm_event(event);
	return id;
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = port,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct rdma_conn_param conn_param(struct side *side, int qp)
{
	return (struct rdma_conn_param){
		.qp_num = side->qp[qp]->qp_num,
		.responder_resources = side->options.rd_atomic,
		.initiator_depth = side->options.rd_atomic,
	};
}

static void op_listen(struct side *side, void *argument)
{
	struct op_rnic *op = argument;
	struct rdma_cm_id *id = make_id(&op->channel);
	struct sockaddr_in at = loopback(0);

	REQUIRE(!cm.bind_addr(id, (struct sockaddr *)&at) && !cm.listen(id, 1), "rdma_listen: %s",
		strerror(errno));
	op->port = cm.get_src_port(id);
}

static void op_accept(struct side *side, void *argument)
{
	struct op_rnic *op = argument;
	struct rdma_cm_id *id = await(op->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param param = conn_param(side, op->qp);

	REQUIRE(!cm.accept(id, &param), "rdma_accept: %s", strerror(errno));
	await(op->channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void op_connect(struct side *side, void *argument)
{
	struct op_rnic *op = argument;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id = make_id(&channel);
	struct rdma_conn_param param = conn_param(side, op->qp);
	struct sockaddr_in to = loopback(op->port);

	REQUIRE(!cm.resolve_addr(id, NULL, (struct sockaddr *)&to, WAIT_MS),
		"rdma_resolve_addr: %s", strerror(errno));
	await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	REQUIRE(!cm.resolve_route(id, WAIT_MS), "rdma_resolve_route: %s", strerror(errno));
	await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	REQUIRE(!cm.connect(id, &param), "rdma_connect: %s", strerror(errno));
	await(channel, RDMA_CM_EVENT_ESTABLISHED);
}

void rnic_connect(struct pair *pair, int qp)
{
	struct op_rnic passive = { .qp = qp }, active;

	RUN(&pair->b, op_listen, &passive);
	active = passive;
	START(&pair->b, op_accept, &passive);
	RUN(&pair->a, op_connect, &active);
	end_finish(&pair->b);
}
