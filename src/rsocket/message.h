/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Message - posts the messages of a stream (protocol.h) and processes completions.
 *
 * In:  completions of the stream's CQ.
 * Out: work requests; positions and credits of the stream.
 *
 * The caller holds the stream's lock. Never sleeps. A protocol error of the peer ends the stream
 * with EPROTO and a cause. What the peer writes into this end's lists serves only as an address at
 * the peer.
 */
#ifndef RSOCKET_MESSAGE_H
#define RSOCKET_MESSAGE_H

#include "rsocket/stream.h"

/* Fills in the hello of this end; stream_open has succeeded. */
void message_hello(const struct stream *s, struct hello *hello);

/* Takes the peer's hello. -EPROTO with a cause: it is too short, or of another version. */
int message_take_hello(struct stream *s, const void *data, size_t length) REQUIRES(s->lock);

/* Posts `count` receives, which take the immediates: 0 or -errno. */
int message_post_receives(struct stream *s, unsigned count) REQUIRES(s->lock);

/* Processes all completions; true if there were any. */
bool message_poll(struct stream *s) REQUIRES(s->lock);

/* Posts what the peer is owed: a free half of the receive buffer, credits, a control message. */
void message_grant(struct stream *s) REQUIRES(s->lock);

/* Whether message_grant has room or credits to post. Reads without the lock, so it may be late. */
bool message_grant_due(const struct stream *s);

/* Whether data can be posted: credits, SQ, send ring and the peer's buffer have room. */
bool message_can_send(struct stream *s) REQUIRES(s->lock);

/*
 * Writes `length` bytes, at most s->to.length, into the peer's receive buffer; message_can_send is
 * true. The data lies at the tail of the send ring, which moves on, or anywhere if `inlined`. A
 * failure ends the stream.
 */
void message_post_data(struct stream *s, const void *data, uint32_t length, bool inlined)
	REQUIRES(s->lock);

/* The same into memory that the peer has mapped (riowrite), without an immediate. */
void message_post_direct(struct stream *s, const void *data, uint32_t length, bool inlined,
			 uint64_t addr, uint32_t key) REQUIRES(s->lock);

/* Writes `mapping` to entry `index` of the peer's list; message_can_send is true. */
void message_post_mapping(struct stream *s, uint32_t index, const struct mapping *mapping)
	REQUIRES(s->lock);

/* Whether a control message can be posted. */
bool message_can_control(const struct stream *s) REQUIRES(s->lock);

/*
 * Posts a control message, now or in a later message_grant. It replaces one that was not posted
 * yet.
 */
void message_owe_control(struct stream *s, enum control control) REQUIRES(s->lock);

/* Posts an empty WRITE, which only the peer's adapter notices; message_can_control is true. */
void message_post_keepalive(struct stream *s) REQUIRES(s->lock);

/* Whether everything that was posted has completed. */
bool message_all_done(const struct stream *s) REQUIRES(s->lock);

/* Contiguous free bytes at the tail of the send ring. */
uint32_t message_room(const struct stream *s) REQUIRES(s->lock);

#endif
