/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWCM thread - the ends that exist, and the thread that waits for their sockets.
 *
 * Shared by the files of iwcm alone. One lock guards all of it; it is held for no call of verbs,
 * nor for an exchange with verbatimd.
 */
#ifndef CM_IWCM_THREAD_H
#define CM_IWCM_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cm/iwcm.h"
#include "tls/tls.h"
#include "ctl/protocol.h"
#include "iwarp/mpa_startup.h"
#include "iwarp/same_host.h"
#include "tcp/tcp.h"

enum iwcm_state {
	IWCM_BOUND = 0,
	IWCM_LISTENING,
	IWCM_CONNECTING,  /* TCP's handshake */
	IWCM_SECURING,	  /* either end: TLS's handshake (tls/tls.h) */
	IWCM_CALLING,	  /* initiator: until the MPA reply */
	IWCM_SETTLING,	  /* initiator: the reply is here, but siw may not be ready */
	IWCM_ANSWERING,	  /* responder: until the MPA request */
	IWCM_ASKED,	  /* the program is to answer it */
	IWCM_PLACING,	  /* responder: until the initiator says which path it is */
	IWCM_HANDING,	  /* a thread hands the socket to libibverbs, without the lock */
	IWCM_ESTABLISHED, /* the socket is the QP's */
	IWCM_CLOSED,
};

struct iwcm {
	struct list link; /* in iwcm.all while it has a socket here; or alone */
	struct list over; /* in iwcm.over once its connection has ended; or alone */
	unsigned users;	  /* identifier or listener; a thread in IWCM_HANDING; the QP */
	enum iwcm_state state;
	int fd;			   /* -1: none, or the QP's. HANDING: the QP may have closed it */
	uint32_t watched;	   /* epoll's events; 0: not in epoll */
	uint32_t number;	   /* of the identifier; 0: it has none */
	uint64_t due_ns;	   /* CLOCK_MONOTONIC; 0: none. Listener: when to accept again */
	struct iwcm *listener;	   /* ANSWERING, ASKED: until the program is told */
	unsigned backlog, waiting; /* LISTENING: requests that the program has not taken yet */
	unsigned silent;	   /* LISTENING: connections without a request so far */
	uint32_t qpn;
	uint64_t refused_ns; /* CONNECTING: since when the peer refuses; 0: it does not */
	bool has_ended;	     /* HANDING: the connection is over already */
	struct tls *tls;     /* SECURING */
	bool wants_end;	     /* PLACING, HANDING: rdma_disconnect, once it is established */
	struct ctl_cm_address local, remote;
	struct list events;
	struct mpa_startup startup;
	struct tcp_identity socket; /* of fd */
	/* responder, from PLACING on */
	uint32_t hold;	     /* of the QP: verbatim_iwarp_hold */
	uint8_t frame_bytes; /* of `frame`, so far */
	uint8_t frame[SAME_HOST_FRAME_BYTES];
	bool is_shared; /* the path is shared memory, to `peer` */
	struct same_host_place peer;
};

/* A ticket for an event, to be raised by the thread. */
struct iwcm_ticket {
	struct list link;
	uint32_t number;
};

struct iwcm_common {
	pthread_mutex_t lock;
	pthread_cond_t handed; /* an end has left IWCM_HANDING */
	struct list all;
	struct list tickets;
	struct list freed; /* of no use any more: the thread may have events of them at hand */
	int epoll, wake;   /* -1: there is no thread */
	pthread_mutex_t over_lock; /* innermost, of `over` alone; no fork holds it */
	struct list over;	   /* the QPs' connections have ended; for the thread */
};

extern struct iwcm_common iwcm;

/* Starts the thread unless it runs. With the lock. 0 or -errno. */
int iwcm_thread_start(void);
void iwcm_thread_wake(void);

/* What epoll watches of the end's socket. With the lock. 0 or -errno. */
int iwcm_watch(struct iwcm *iw, uint32_t events);

/*
 * The end gets its socket. With the lock, which is held since before the socket was made: a fork
 * waits until the end is in iwcm.all.
 */
void iwcm_take(struct iwcm *iw, int fd);

/* Closes the socket, if it is here. With the lock. */
void iwcm_close(struct iwcm *iw);

/* NULL: no memory. */
struct iwcm *iwcm_create(void);
void iwcm_put(struct iwcm *iw); /* with the lock */

/* Keeps an event for the identifier's channel; none if it has no identifier. With the lock. */
void iwcm_post(struct iwcm *iw, const struct iwcm_event *event);

/* The connection has ended. With the lock. */
void iwcm_on_end(struct iwcm *iw);

/* epoll's events of a socket; with the lock, which they release while they hand over. */
void iwcm_on_socket(struct iwcm *iw, uint32_t events);
void iwcm_on_due(struct iwcm *iw);

/* An accepted connection waits for its MPA request. */
void iwcm_answer(struct iwcm *iw);

/* CONNECTING: connect(2) to iw->remote. 0 or -errno. */
int iwcm_begin_connect(struct iwcm *iw);

/* The listener has room again, or may have. With the lock. */
void iwcm_resume(struct iwcm *listener);

/*
 * Hands the socket over, and posts the outcome. With the lock, which it releases meanwhile. 0 or
 * -errno, and the end is closed.
 */
int iwcm_hand_over(struct iwcm *iw);

/*
 * Whether the path to this address may be shared memory; then *own is this end's place. Without the
 * lock.
 */
bool iwcm_may_share(uint32_t qpn, const struct ctl_cm_address *remote, struct same_host_place *own);

/*
 * The reply has told of this end's place: holds the QP until the initiator's frame comes. With the
 * lock, which it releases meanwhile. 0 or -errno, and the end is closed.
 */
int iwcm_hold(struct iwcm *iw);

/* PLACING: bytes of the frame, or it does not come. With the lock, which they release. */
void iwcm_on_place(struct iwcm *iw);
void iwcm_fail_place(struct iwcm *iw, int rc);

/* The end is closed, and its QP not held any longer. With the lock, which it releases meanwhile. */
void iwcm_abandon(struct iwcm *iw);

/* Gives libibverbs the socket, for the path that it is. HANDING, without the lock. 0 or -errno. */
int iwcm_attach(struct iwcm *iw, int fd, void (*ended)(void *arg));

#endif
