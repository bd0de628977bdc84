/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWCM - iWARP's connection management: listeners and connections over TCP, in the program's
 * process.
 *
 * In:  calls of rdma_cm on identifiers whose devices are RNICs.
 * Out: sockets with MPA's start-up done, handed over to libibverbs; events in the identifiers'
 *      channels, as Linux's iwcm raises them.
 *
 * The kernel's TCP has the ports, the listeners' queues and the end of a process. One thread of
 * this library (iwcm_thread.h) waits for sockets until their connection is established. verbatimd
 * has the identifier alone, for its channel: an event is kept here, and CTL_CM_RAISE puts a ticket
 * for it into the channel (CTL_CM_IWARP). See docs/design/iwarp.md.
 *
 * Any thread. Nothing waits for a peer.
 */
#ifndef CM_IWCM_H
#define CM_IWCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cm/id.h"
#include "ctl/protocol.h"

/* A call's private data: its length is an uint8_t in struct rdma_conn_param. */
#define IWCM_PRIVATE_MAX 255

struct iwcm; /* an identifier's half here */

struct iwcm_event {
	uint32_t kind; /* enum ctl_cm_event_kind */
	int status;
	struct iwcm *asked;		     /* CONNECT_REQUEST: of the child; the taker's now */
	struct ctl_cm_address local, remote; /* likewise */
	uint8_t responder_resources, initiator_depth;
	uint8_t private_bytes;
	uint8_t private_data[IWCM_PRIVATE_MAX];
};

/* What connect and accept tell the peer. */
struct iwcm_param {
	uint32_t qpn;
	uint8_t responder_resources, initiator_depth;
	const void *private_data;
	size_t private_bytes;
};

/* The devices of this process are RNICs. */
bool iwcm_is_on(void);

/*
 * Binds a TCP socket to id->local, and sets its port. 0 or -errno: -EADDRINUSE, -EADDRNOTAVAIL,
 * -EACCES; -EOPNOTSUPP, with a cause: the identifier is not for RC.
 */
int iwcm_bind(struct id *id);

/* backlog: of connections that the program has not been told of; 0: the default. 0 or -errno. */
int iwcm_listen(struct id *id, int backlog);

/* Begins to connect from id->local to id->remote; an event tells the outcome. 0 or -errno. */
int iwcm_connect(struct id *id, const struct iwcm_param *param);

/* Answers a connection that CONNECT_REQUEST told of. 0 or -errno; -ECONNRESET: the peer is gone. */
int iwcm_accept(struct id *id, const struct iwcm_param *param);
int iwcm_reject(struct id *id, const void *private_data, size_t bytes);

/*
 * An orderly end. 0: DISCONNECTED follows; 1: it came before; -EINVAL: it was never connected.
 */
int iwcm_disconnect(struct id *id);

/* The identifier ends. No event comes any more; what it was connected to is closed. */
void iwcm_end(struct id *id);
void iwcm_drop(struct iwcm *asked); /* the same, of a child that could not be made */

/* The child of a request gets its identifier. */
void iwcm_adopt(struct iwcm *asked, struct id *id);

/* The oldest event of the identifier. False: there is none. */
bool iwcm_next_event(struct id *id, struct iwcm_event *out);

/* Handlers of a fork (cm/id.c). */
void iwcm_before_fork(void);
void iwcm_after_fork(void);
void iwcm_after_fork_in_child(void);

#endif
