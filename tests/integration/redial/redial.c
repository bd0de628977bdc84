/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Redial - makes connections and takes them down in one process, many times.
 *
 *     redial serve ADDRESS PORT   takes every connection, until it is ended
 *     redial dial ADDRESS PORT    for each line "COUNT AT_ONCE" of its input: COUNT connections,
 * AT_ONCE of them open at the same time; then says how long they took
 *
 * Each connection has a QP, with CQs and completion channels of its own, and goes through every
 * step of a connection's life at both ends. While there are none, both print the bytes of their
 * heaps in use; the test that started them compares their other resources before and after a line.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define RESOLVE_MS 5000
#define BACKLOG	   1024

static struct rdma_event_channel *channel;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	int error = errno;
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": %s\n", strerror(error));
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t heap_in_use(void)
{
	struct mallinfo2 heap = mallinfo2();

	return heap.uordblks + heap.hblkhd;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp");
}

static void end_connection(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	if (rdma_destroy_id(id))
		die("rdma_destroy_id");
}

static struct rdma_cm_event *next_event(void)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	return event;
}

/*
 * ------------------------------------------------------------------------------------------
 * The end that listens.
 */

static void serve(struct sockaddr_in *address)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_id *listener;
	unsigned open = 0;

	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)address) || rdma_listen(listener, BACKLOG))
		die("cannot listen");
	printf("listens\n");
	for (;;) {
		struct rdma_cm_event *event = next_event();
		enum rdma_cm_event_type type = event->event;
		struct rdma_cm_id *id = event->id;

		rdma_ack_cm_event(event);
		switch (type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			create_qp(id);
			if (rdma_accept(id, &param))
				die("rdma_accept");
			open++;
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			if (rdma_disconnect(id))
				die("rdma_disconnect");
			end_connection(id);
			if (!--open)
				printf("idle, %zu bytes\n", heap_in_use());
			break;
		default:
			die("the server got %s", rdma_event_str(type));
		}
	}
}

/*
 * ------------------------------------------------------------------------------------------
 * The end that connects.
 */

static void begin(struct sockaddr_in *address, struct rdma_cm_id **id)
{
	if (rdma_create_id(channel, id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	if (rdma_resolve_addr(*id, NULL, (struct sockaddr *)address, RESOLVE_MS))
		die("rdma_resolve_addr");
}

/* How far a connection came. 1: it is established; -1: it has ended. */
static int go_on(struct rdma_cm_event *event)
{
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
	};
	struct rdma_cm_id *id = event->id;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(id, RESOLVE_MS))
			die("rdma_resolve_route");
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		create_qp(id);
		if (rdma_connect(id, &param))
			die("rdma_connect");
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		return 1;
	case RDMA_CM_EVENT_DISCONNECTED:
		return -1;
	default:
		errno = -event->status;
		die("the client got %s", rdma_event_str(event->event));
	}
}

static void dial(struct sockaddr_in *address, struct rdma_cm_id **ids, unsigned at_once)
{
	unsigned open = 0, ended = 0;

	for (unsigned i = 0; i < at_once; i++)
		begin(address, &ids[i]);
	while (ended < at_once) {
		struct rdma_cm_event *event = next_event();
		struct rdma_cm_id *id = event->id;
		int way = go_on(event);

		rdma_ack_cm_event(event);
		if (way > 0 && ++open == at_once) {
			for (unsigned i = 0; i < at_once; i++) {
				if (rdma_disconnect(ids[i]))
					die("rdma_disconnect");
			}
		} else if (way < 0) {
			if (open < at_once)
				die("the server ended a connection");
			end_connection(id);
			ended++;
		}
	}
}

static void dial_on_demand(struct sockaddr_in *address)
{
	unsigned count, at_once;

	while (scanf("%u %u", &count, &at_once) == 2) {
		struct rdma_cm_id **ids = calloc(at_once, sizeof(struct rdma_cm_id *));
		double since_s = now_s(), took_s;

		if (!ids)
			die("out of memory");
		for (unsigned made = 0; made < count; made += at_once)
			dial(address, ids, at_once);
		took_s = now_s() - since_s;
		free(ids);
		printf("idle, %zu bytes\n", heap_in_use());
		printf("%u connections, %u at once, in %.3f s: %.0f per second\n", count, at_once,
		       took_s, count / took_s);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct rlimit files;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		die("usage: redial serve|dial ADDRESS PORT");
	address.sin_port = htons((uint16_t)atoi(argv[3]));
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	if (!strcmp(argv[1], "serve"))
		serve(&address);
	dial_on_demand(&address);
	return 0;
}
