/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA start-up - the two frames that begin a stream (RFC 5044 7.1, RFC 6581), for either end.
 *
 * In:  bytes of the stream, in pieces of any size; the program's answer.
 * Out: bytes for the stream; what both ends agreed on.
 *
 *   initiator: mpa_startup_call, send its `out`; feed the reply: ESTABLISHED or REJECTED
 *   responder: mpa_startup_answer, feed the request: ASKED; then mpa_startup_accept or _reject, and
 *              send its `out`
 *
 * No I/O, no clock: time limits are the caller's. One thread at a time. A peer can only bring about
 * MPA_FAILED, with a cause.
 */
#ifndef IWARP_MPA_STARTUP_H
#define IWARP_MPA_STARTUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cause.h"
#include "iwarp/same_host.h"

#define MPA_PRIVATE_MAX 512 /* bytes of private data, RFC 6581's own four included */
#define MPA_FRAME_BYTES 20
#define MPA_FRAME_MAX	(MPA_FRAME_BYTES + MPA_PRIVATE_MAX)
/* of the program, in a frame of revision 2 */
#define MPA_PROGRAM_MAX (MPA_PRIVATE_MAX - 4)
#define MPA_IRD_MAX	32     /* of this end, whatever the peer's ORD; LIMIT_QP_RD_ATOM */
#define MPA_RD_MAX	0x3fff /* IRD and ORD; as a value of a peer: it does not negotiate */

enum mpa_state {
	MPA_WAITING,	 /* for bytes of the peer's frame */
	MPA_ASKED,	 /* responder: the request is here, see `asked` and `private_data` */
	MPA_ESTABLISHED, /* `agreed` holds. Responder: once `out` is sent */
	MPA_REJECTED,	 /* initiator: by the peer, with private data. Responder: by _reject */
	MPA_FAILED, /* the peer's frame is not one, or asks for what this end has not: `cause` */
};

/* The initiator's first FPDU with peer-to-peer set-up (RFC 6581 9.2): ready to receive. */
enum mpa_rtr {
	MPA_RTR_NONE,  /* no peer-to-peer: the initiator's program has to send first */
	MPA_RTR_EMPTY, /* a ULPDU of no bytes */
	MPA_RTR_WRITE, /* an RDMA WRITE of no bytes */
	MPA_RTR_READ,  /* an RDMA READ of no bytes */
};

/* What one end wants. */
struct mpa_offer {
	uint8_t revision;    /* 1, or 2: RFC 6581. A responder follows the initiator's */
	bool crc;	     /* asks for CRCs; they are used if either end asks */
	bool markers;	     /* asks the peer for markers */
	bool refuse_markers; /* responder: fails if the peer asks for them, as siw does */
	bool peer_to_peer;   /* initiator, revision 2: proposes all three kinds of RTR */
	bool extensions;     /* has RFC 7306, and asks whether the peer is Verbatim with it, too */
	/*
	 * With `extensions`. Initiator: the peer's address is one of this host, and shared memory
	 * may be the connection's path. Responder: see mpa_startup_offer_place.
	 */
	bool same_host;
	uint16_t ird, ord; /* READs that it takes, and wants to have, at once: 0..MPA_RD_MAX */
};

/* What both ends agreed on. */
struct mpa_agreed {
	bool initiator;
	bool crc;
	bool sends_markers, gets_markers;
	bool extensions; /* RFC 7306: immediate data and atomics */
	/*
	 * The responder has said its place on this host. The initiator's frame of
	 * iwarp/same_host.h comes next, and says whether the path is shared memory.
	 */
	bool same_host;
	uint16_t ird, ord; /* of this end */
	enum mpa_rtr rtr;
};

struct mpa_startup {
	enum mpa_state state;
	enum cause cause; /* MPA_FAILED */
	struct mpa_offer offer;
	struct mpa_agreed agreed;
	/* the peer's frame */
	uint8_t revision;     /* of the stream */
	bool peer_negotiates; /* revision 2: the two below are the peer's */
	uint16_t peer_ird, peer_ord;
	uint16_t flags;	   /* of the peer's frame, private to mpa_startup.c */
	uint16_t peer_rtr; /* likewise */
	uint16_t private_bytes;
	const uint8_t *private_data; /* the program's, within `in`; valid from ASKED, REJECTED,
					ESTABLISHED (initiator) on */
	/* agreed.same_host: the responder's place. Responder: this end's; initiator: the peer's */
	uint8_t place[SAME_HOST_PLACE_BYTES];
	uint16_t in_bytes;
	uint8_t in[MPA_FRAME_MAX];
	/* this end's frame: `out_bytes` bytes, of which the caller has sent `out_sent` */
	uint16_t out_bytes, out_sent;
	uint8_t out[MPA_FRAME_MAX];
};

/* Initiator: `out` is the request. -EINVAL: too much private data. */
int mpa_startup_call(struct mpa_startup *startup, const struct mpa_offer *offer,
		     const void *private_data, size_t bytes);

/* Responder: waits for a request. accept and reject need no later change of `offer`. */
void mpa_startup_answer(struct mpa_startup *startup, const struct mpa_offer *offer);

/*
 * Takes bytes of the stream; returns how many belong to the frame. The others are the first FPDU's.
 * Nothing is taken but in MPA_WAITING. Look at `state` afterwards. Never asks for bytes beyond the
 * frame: mpa_startup_wanted is how many may be read without touching what follows (>= 1 in
 * MPA_WAITING).
 */
size_t mpa_startup_feed(struct mpa_startup *startup, const void *bytes, size_t count);
size_t mpa_startup_wanted(const struct mpa_startup *startup);

/*
 * Responder, in MPA_ASKED: `out` is the reply. `ird` and `ord` are what rdma_accept asks for
 * (bounded by the offer and by what the peer can do). accept: 0, -EINVAL (private data), -ENOTSUP
 * (nothing in common with what the peer proposes: `out` is a rejection, state MPA_REJECTED).
 */
int mpa_startup_accept(struct mpa_startup *startup, uint16_t ird, uint16_t ord,
		       const void *private_data, size_t bytes);
int mpa_startup_reject(struct mpa_startup *startup, const void *private_data, size_t bytes);

/*
 * Responder, in MPA_ASKED: whether the initiator takes the ends for processes of one host; and
 * before mpa_startup_accept, that this end does, too: the reply tells the initiator of `place`.
 * NULL: this end does not, as by default.
 */
bool mpa_startup_asks_place(const struct mpa_startup *startup);
void mpa_startup_offer_place(struct mpa_startup *startup,
			     const uint8_t *place /* SAME_HOST_PLACE_BYTES */);

/* The ULPDU that makes an FPDU of a TCP segment of `mss` bytes (RFC 5044 5.1); 128 at least. */
uint32_t mpa_mulpdu(uint32_t mss, bool markers);

#endif
