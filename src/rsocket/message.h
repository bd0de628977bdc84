/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Message - what goes over the connection of a stream: requests posted, completions taken
 * (protocol.h).
 *
 * The caller holds the stream's lock. Never sleeps. A protocol error of the peer ends the stream with
 * EPROTO and a cause. What the peer wrote into our lists is only used as an address at its own end.
 */
#ifndef RSOCKET_MESSAGE_H
#define RSOCKET_MESSAGE_H

#include "rsocket/stream.h"

/* The hello of this end, whose endpoint is open. */
void message_hello(const struct stream *s, struct hello *hello);

/* Takes the peer's hello. -EPROTO with a cause: it makes no sense; nothing has changed then. */
int message_take_hello(struct stream *s, const void *data, size_t length) REQUIRES(s->lock);

/* Posts that many receives: -errno. */
int message_post_receives(struct stream *s, unsigned count) REQUIRES(s->lock);

/* Takes all completions; true if there were any. */
bool message_poll(struct stream *s) REQUIRES(s->lock);

/* Tells the peer what it may know by now: room, credits, the control message that is owed. */
void message_grant(struct stream *s) REQUIRES(s->lock);

/* Whether that would give it anything. Needs no lock; may be late. */
bool message_grant_due(const struct stream *s);

/* Whether data can be posted now: credits, requests, room here and room there. */
bool message_can_send(struct stream *s) REQUIRES(s->lock);

/*
 * Posts `length` bytes, which message_can_send allows, at most `to.length`: into the peer's receive
 * buffer. They lie in the send ring at its tail, which moves; or, `inlined`, anywhere. A failure
 * ends the stream.
 */
void message_post_data(struct stream *s, const void *data, uint32_t length, bool inlined)
	REQUIRES(s->lock);

/* The same into memory that the peer has mapped; no message tells it. */
void message_post_direct(struct stream *s, const void *data, uint32_t length, bool inlined,
			 uint64_t addr, uint32_t key) REQUIRES(s->lock);

/* Tells the peer of a mapping of ours; needs message_can_send. */
void message_post_mapping(struct stream *s, uint32_t index, const struct mapping *mapping)
	REQUIRES(s->lock);

/* Whether a control message can be posted. */
bool message_can_control(const struct stream *s) REQUIRES(s->lock);

/* Posts it, now or when message_grant can. It replaces one that is not yet posted. */
void message_owe_control(struct stream *s, enum control control) REQUIRES(s->lock);

/* An empty WRITE, which only the peer's adapter notices. */
void message_post_keepalive(struct stream *s) REQUIRES(s->lock);

/* Whether everything that was posted has completed. */
bool message_all_done(const struct stream *s) REQUIRES(s->lock);

/* Bytes of the send ring from its tail on that are free and in one piece. */
uint32_t message_room(const struct stream *s) REQUIRES(s->lock);

#endif
