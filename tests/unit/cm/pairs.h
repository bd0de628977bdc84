/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs - two ends of a connection in one process, on channels of their own.
 *
 * A failure ends the test (CHECK of daemon/harness.h).
 */
#ifndef PAIRS_H
#define PAIRS_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

struct pair {
	enum rdma_port_space ps;
	struct rdma_event_channel *active, *passive;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;	  /* the active end */
	struct rdma_cm_id *child; /* the passive one; NULL: none yet */
};

struct sockaddr_in pairs_v4(uint32_t address, uint16_t port); /* host order */
struct sockaddr_in6 pairs_v6(const char *address, uint16_t port);

/* Whether the call failed with this errno. */
bool fails_with(int rc, int error);

/*
 * The next event, which has to be of this kind. await_event does not acknowledge it; expect_event
 * does, and returns its identifier.
 */
struct rdma_cm_event *await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
struct rdma_cm_id *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
bool has_event(struct rdma_event_channel *channel, int wait_ms);

/* A listener on a port of 127.0.0.1, and an identifier with route there. */
void pair_open(struct pair *p, enum rdma_port_space ps);
void pair_route(struct rdma_event_channel *channel, struct rdma_cm_id *id,
		struct rdma_cm_id *listener);

/* The private data is as long as the message's field, padded with zeroes. */
void check_data(const struct rdma_conn_param *got, size_t length, const uint8_t *sent,
		size_t sent_length);

/* An RC QP (UD: a UD QP) of small queues. */
void pair_make_qp(struct rdma_cm_id *id);

/* The request comes, and p->child is its identifier. The event is the caller's. */
struct rdma_cm_event *pair_take_request(struct pair *p);

/* With QPs at both ends, up to ESTABLISHED at both. */
void pair_connect(struct pair *p);

/* Destroys all, QPs too. */
void pair_close(struct pair *p);

/* The library's watching thread; 0: there is none. */
pid_t pairs_watching_thread(void);

#endif
