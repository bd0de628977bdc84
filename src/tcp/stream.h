/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream - the TCP socket of a QP: from the handover until it is closed, whatever it is used for.
 *
 * In:  sockets that tcp/streams and tcp/control are given; the time.
 * Out: their calls at the times that they asked for; the end of each, to librdmacm.
 *
 * Shared by the files of tcp/ alone. A stream belongs to one QP, and is found by its QP's index. It
 * is only used with that QP's lock. One that has ended leaves the table under that lock (no thread
 * finds it any more), and goes to the progress thread. That one tells librdmacm, and closes the
 * socket once the peer has closed its direction, or no byte has moved for STREAMS_LINGER_NS.
 *
 * Locks: qp->lock, within it the lock of the lists, which is innermost.
 */
#ifndef TCP_STREAM_H
#define TCP_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "object/qp.h"
#include "tcp/tcp.h"

#define STREAM_AGAIN_NS 2000000ull

struct stream;

/* What a stream is used for. Functions are called with the QP's lock. */
struct stream_use {
	/* An orderly end: what is posted is still done, then the half close. */
	void (*disconnect)(struct qp *qp, struct stream *s);
	/* The progress thread, at the time that stream_schedule was given, or later. */
	void (*serve)(struct qp *qp, struct stream *s, uint64_t now);
	/* The stream ends. It is in the table still. */
	void (*leave)(struct stream *s);
	/* The progress thread, without locks, before `serve`, and before the FIN. NULL: nothing. */
	void (*catch_up)(uint32_t qpn);
	_Atomic uint32_t *count; /* of those from stream_make to stream_drop */
};

enum fin {
	FIN_NONE,
	FIN_WAITS,  /* TLS: for acknowledgements */
	FIN_ALMOST, /* likewise; there was nothing left at almost_ns */
	FIN_SENT,
};

struct stream {
	int fd;
	struct tcp_identity socket; /* of fd */
	bool is_tls;
	uint32_t qpn;
	const struct stream_use *use;
	void (*ended)(void *arg);
	void *arg;
	/* guarded by the QP's lock; the progress thread's alone in `over` or `lingering` */
	bool wants_end; /* `disconnect` is due */
	uint8_t fin;	/* enum fin; other than FIN_NONE: half closed, or about to be */
	uint64_t almost_ns;
	uint64_t idle_ns;  /* how long no byte may move; 0: the stream is not ending */
	uint64_t limit_ns; /* it is given up then, unless a byte moves before */
	uint64_t bound_ns; /* it is given up then */
	uint64_t look_ns;  /* when to look next whether bytes have moved */
	uint64_t moved;	   /* at the last look */
	/* likewise, of tcp/streams */
	bool wants_room;  /* EPOLLOUT is on */
	bool has_sent;	  /* a byte has left in this take */
	uint64_t gate_ns; /* iwarp_open_gate is due; 0: it is not */
	/* likewise, of tcp/control */
	bool closing; /* the half close follows the QP's last request */
	bool peer_closed;
	bool is_left;	 /* it serves no longer */
	uint32_t last;	 /* what was posted before it closed ends here in the SQ */
	uint32_t head;	 /* of the SQ, when it was looked at last */
	uint64_t cookie; /* of the peer's arena */
	/* guarded by the lists' lock */
	struct list link; /* in `due`, `over` or `lingering`; or alone */
	uint64_t due_ns;
	struct stream *_Atomic next; /* in `chains` */
	/* the progress thread's alone */
	bool is_closed; /* lingering: until no fork is under way */
};

/* Wakes the progress thread. Set once, before the first stream. */
void stream_init(void (*wake)(void));

/*
 * A stream for this QP, in no table, that a fork's child knows. NULL: no memory. The socket is
 * still the caller's, and stream_drop forgets it.
 */
struct stream *stream_make(uint32_t qpn, int fd, const struct stream_use *use,
			   void (*ended)(void *arg), void *arg);
void stream_drop(struct stream *s);

/* The stream of this QP, whose lock is held; NULL: none. */
struct stream *stream_at(uint32_t qpn);
void stream_set(uint32_t qpn, struct stream *s);

/* `serve` is called at this time, CLOCK_MONOTONIC. */
void stream_schedule(struct stream *s, uint64_t ns);

/*
 * The stream is to end: within 30 s without a byte that moves, or STREAMS_LINGER_NS if `failed`. A
 * limit that is no shorter than that of before changes nothing, so a peer gains no time.
 */
void stream_begin_end(struct stream *s, bool failed);

/* True: the stream was to end, and has not in time. */
bool stream_is_late(struct stream *s, uint64_t now);

/* The FIN, as soon as it may leave. */
void stream_fin(struct stream *s);

/* After stream_begin_end: the FIN, and STREAMS_LINGER_NS for the peer's. */
void stream_half_close(struct stream *s);

/* The QP needs it no longer. */
void stream_end(struct stream *s);

/* In the child of a fork: closes its copies of all sockets, and forgets all. */
void stream_reset_after_fork(void);

#endif
