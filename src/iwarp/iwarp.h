/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP - RDMAP, DDP and MPA over a byte stream (RFCs 5040, 5041, 5044, 6581, 7306): struct qp_path
 * for RC QPs.
 *
 * A library without I/O, clock or thread: it reads and writes the stream through struct iwarp_env,
 * so the adapter runs it on TCP sockets, a simulator on byte queues, and a fuzzer feeds it.
 *
 * A QP gets its stream after MPA's start-up (mpa_startup.h): iwarp_attach moves it to RTS. From
 * then on posted requests leave by `send`; iwarp_on_readable takes what arrives. When the engine
 * needs the stream no longer it says so once, by `ended`.
 *
 * Locks: functions with a QP argument are called with qp->lock, `env` functions too. None blocks.
 * See docs/design/iwarp.md.
 */
#ifndef IWARP_IWARP_H
#define IWARP_IWARP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "iwarp/mpa_startup.h"
#include "object/qp.h"

struct iwarp_qp;

/* Results of `send` and `receive` besides a number of bytes. */
#define IWARP_WOULD_BLOCK 0  /* `send`: no room; `receive`: no bytes now */
#define IWARP_LOST	  -1 /* the stream is broken (reset, time-out) */
#define IWARP_END	  -2 /* `receive`: the peer has sent its FIN, and all is read */

#define IWARP_SEND_PIECES    256 /* iovecs of one `send`, at most */
#define IWARP_RECEIVE_PIECES 4	 /* likewise of one `receive` */

/* Why the engine is done with a stream. */
enum iwarp_end {
	IWARP_END_NONE,		/* it is not */
	IWARP_END_CLOSED,	/* the peer closed it between two FPDUs */
	IWARP_END_LOST,		/* it broke, or ended within an FPDU */
	IWARP_END_TERMINATED,	/* by a TERMINATE of the peer */
	IWARP_END_ERROR,	/* this end found an error, and has sent its TERMINATE */
	IWARP_END_DISCONNECTED, /* iwarp_disconnect, or ibv_modify_qp to ERR or RESET */
};

struct iwarp_env {
	/*
	 * Writes to the stream without waiting: the number of bytes that it took (> 0),
	 * IWARP_WOULD_BLOCK or IWARP_LOST. After WOULD_BLOCK, or fewer bytes than there were, the
	 * environment calls iwarp_on_writable once there is room. The pieces are the caller's again
	 * on return. `more`: another `send` follows at once, so the
	 * last segment need not leave before it is full.
	 */
	ssize_t (*send)(void *stream, const struct iovec *pieces, int count, bool more);
	/*
	 * Reads without waiting, into the pieces in their order: the number of bytes (> 0),
	 * IWARP_WOULD_BLOCK, IWARP_LOST or IWARP_END. Pieces may be the program's memory: a bad
	 * address there is IWARP_LOST, with a cause.
	 * Fewer bytes than there is room for mean that nothing is left for now: what tells the
	 * environment of bytes, or of the end, has to be level-triggered.
	 */
	ssize_t (*receive)(void *stream, const struct iovec *pieces, int count);
	/*
	 * Half close: no `send` follows, and what was sent has to arrive. The peer's bytes are
	 * still read (iwarp_on_readable), until `ended`.
	 */
	void (*shutdown)(void *stream);
	/*
	 * The stream is to end, and bytes may still have to leave: the environment bounds that, and
	 * after that time calls iwarp_give_up. `failed`: the QP is in ERR, so only what is staged
	 * leaves; else what is posted does, too. May be said again.
	 */
	void (*ending)(void *stream, bool failed);
	/*
	 * The engine does not touch the stream any more, and the QP is in ERR or RESET. Called once
	 * for each stream, within any function of the engine, or of the QP (qp_modify, qp_destroy);
	 * so it only marks the stream, and another thread closes it later. With
	 * IWARP_END_TERMINATED and _ERROR the stream is closed as it is (bytes sent still have to
	 * arrive: no SO_LINGER of 0).
	 */
	void (*ended)(void *stream, struct qp *qp, enum iwarp_end end);
	/*
	 * A share (256 KiB) has left, and more may go: calls iwarp_on_writable as after
	 * WOULD_BLOCK, but after a turn of the other streams.
	 */
	void (*turn_over)(void *stream);
	/*
	 * Calls iwarp_on_readable(qp) in some ms: a request or a SEND_WITH_INV waits for a copy by
	 * the key that it revokes. The engine may read nothing meanwhile, so the environment looks
	 * whether the peer has closed or is gone, which bounds the wait as `ending` does.
	 */
	void (*again)(void *stream, struct qp *qp);
};

/* Set once, before the first QP. */
void iwarp_init(const struct iwarp_env *env);

/* All that the two ends agreed on (`agreed` of struct mpa_startup), and the length of FPDUs. */
struct iwarp_options {
	struct mpa_agreed mpa;
	/*
	 * Bytes of a ULPDU, at most: 128 to 65535; see mpa_mulpdu. A large one (32 KiB) means fewer
	 * headers, and fewer calls at the receiver; one that fits a segment is what RFC 5044 asks
	 * for, and what adapters of hardware need.
	 */
	uint32_t mulpdu;
};

extern const struct qp_path iwarp_path; /* RC */

/* NULL: the QP uses another path, or has never been attached. */
static inline struct iwarp_qp *iwarp_of(const struct qp *qp)
{
	return qp->path == &iwarp_path ? (struct iwarp_qp *)qp->path_data : NULL;
}

/*
 * Whether the initiator may take this responder's first FPDU for a part of its start-up frame: siw
 * ends the connection then. RFC 5044 7.1.2 wants the initiator to send first, and RFC 6581 has a
 * way for programs whose server speaks first, which siw does not propose. Verbatim takes it.
 */
static inline bool iwarp_may_be_early(const struct mpa_agreed *agreed)
{
	return !agreed->initiator && agreed->rtr == MPA_RTR_NONE && !agreed->extensions;
}

/*
 * Nothing leaves before the peer's first FPDU (iwarp_may_be_early), or this call, with which the
 * environment ends the wait where the peer may wait, too.
 */
void iwarp_open_gate(struct qp *qp) REQUIRES(qp->lock);

/*
 * The QP goes to RTS, and executes nothing until it is attached: the responder's program may post
 * from rdma_accept on, before the ends know their path.
 * iwarp_is_held: it still waits.
 */
void iwarp_hold(struct qp *qp) REQUIRES(qp->lock);
bool iwarp_is_held(const struct qp *qp) REQUIRES(qp->lock);

/* Whether the QP's type and state are those that iwarp_attach takes. */
bool iwarp_may_attach(const struct qp *qp) REQUIRES(qp->lock);

/*
 * The stream is the QP's from now on; the QP moves from INIT (or RTR) to RTS, where one that is
 * held is already. Before that the caller has set qp->attr: dest_qp_num (0 is fine), ah_attr,
 * qp_access_flags; max_rd_atomic and max_dest_rd_atomic are set here, to ORD and IRD. The next
 * bytes of the stream are the first FPDU. `early` are bytes after MPA's frame that were read
 * already, or NULL. 0, or an errno (ENOMEM, EINVAL: not in such a state, not RC) and the stream is
 * still the caller's.
 *
 * The initiator's first FPDU, which RFC 6581 asks for (mpa_rtr), is sent by this function. What was
 * posted to a held QP leaves with the next iwarp_on_writable: the caller may be a thread that uses
 * no memory of the program's.
 */
int iwarp_attach(struct qp *qp, void *stream, const struct iwarp_options *options,
		 const void *early, size_t early_bytes) REQUIRES(qp->lock);

/* What iwarp_on_readable says of the stream. */
enum iwarp_progress {
	IWARP_IDLE, /* nothing to read for now */
	IWARP_MORE, /* stopped after its share (some 256 KiB): call again */
	IWARP_OVER, /* `ended` was called, now or before */
};

/*
 * Bytes may have arrived, or the end of the stream. Any thread. `*any`: some came. Sends responses,
 * and requests that may go now.
 */
enum iwarp_progress iwarp_on_readable(struct qp *qp, bool *any) REQUIRES(qp->lock);

/* The stream may have room again. */
void iwarp_on_writable(struct qp *qp) REQUIRES(qp->lock);

/* The time that `ending` began is over: the stream is lost, whatever it waits for. */
void iwarp_give_up(struct qp *qp) REQUIRES(qp->lock);

/* True: bytes or requests wait for room in the stream, or for its turn (EPOLLOUT is needed). */
bool iwarp_wants_room(const struct qp *qp);

/*
 * An orderly end, as ibv_modify_qp to SQD of an RNIC (RFC 5040 6.2): what is posted is still
 * sent, then the half close; the rest ends with the peer's. READs that are under way still
 * complete. `ended` tells when. Idempotent.
 */
void iwarp_disconnect(struct qp *qp) REQUIRES(qp->lock);

/* The end of this QP's last stream, for events: IWARP_END_NONE while it lives. */
enum iwarp_end iwarp_end_of(const struct qp *qp);

/* base/check.h: between two calls. */
void iwarp_check(const struct qp *qp);

#endif
