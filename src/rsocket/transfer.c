/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/transfer.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "rsocket/mapping.h"
#include "rsocket/message.h"
#include "rsocket/stream_progress.h"

#define CHUNK_MAX    (32 << 10) /* bytes of a WRITE; the peer reads one while the next arrives */
#define INLINE_MAX   1024
#define CONFIRMED_NS UINT64_C(10000000) /* that a non-blocking send waits for the RTU */

/* The connection */

static bool is_decided(struct stream *s)
{
	return !stream_is_connecting(s);
}

int transfer_connected(struct stream *s, int flags)
{
	int phase = s->phase, rc = 0;

	if (phase >= STREAM_CONNECTED)
		return 0;
	if (stream_is_connecting(s))
		rc = stream_wait(s, is_decided, stream_nonblocking(s, flags), 0);
	else
		rc = -ENOTCONN;
	return rc;
}

/*
 * transfer_connected before sending. After raccept a program may send, as with TCP, even on a
 * non-blocking stream, and close. So the stream waits some time for the RTU, which is on its way.
 * If it is late, the stream sends nevertheless: RC repeats what comes before the peer is in RTR.
 */
static int may_begin(struct stream *s, int flags)
{
	if (s->phase == STREAM_ACCEPTING && stream_nonblocking(s, flags)) {
		int rc = stream_wait(s, is_decided, false, clock_now_ns() + CONFIRMED_NS);

		return rc == -EINTR || rc == -EAGAIN ? 0 : rc;
	}
	return transfer_connected(s, flags);
}

/* Sending */

static bool send_ready(struct stream *s) REQUIRES(s->lock)
{
	return !s->may_send || message_can_send(s);
}

/*
 * Whether data can be posted. Messages about mappings go first: the peer may need them for the
 * data.
 */
static bool can_send(struct stream *s) REQUIRES(s->lock)
{
	if (!s->may_send)
		return false;
	if (!message_can_send(s)) {
		stream_progress(s);
		if (!s->may_send || !message_can_send(s))
			return false;
	}
	if (!list_empty(&s->mapping_news)) {
		mapping_tell(s);
		return s->may_send && list_empty(&s->mapping_news) && message_can_send(s);
	}
	return true;
}

static uint32_t least(size_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/*
 * Posts one WRITE of at most `max` bytes, to the peer's mapping `direct`, or to its receive buffer
 * if that is NULL. Returns the bytes; 0: nothing can be posted now.
 */
static size_t send_one(struct stream *s, struct pieces *pieces, size_t max,
		       const struct region *direct) REQUIRES(s->sending) EXCLUDES(s->lock)
{
	uint8_t small[INLINE_MAX], *at;
	uint32_t length;
	bool inlined;

	lock_acquire(&s->lock);
	if (!can_send(s)) {
		lock_release(&s->lock);
		return 0;
	}
	length = least(max, direct ? direct->length : s->to.length);
	inlined = length <= s->inline_bytes && length <= INLINE_MAX;
	if (inlined) {
		at = small;
		pieces_gather(pieces, at, length);
	} else {
		/* Only the holder of `sending` moves the tail, so the copy needs no `lock`. */
		length = least(length, CHUNK_MAX);
		length = least(length, message_room(s));
		at = s->send_ring + s->send_tail % s->send_bytes;
		lock_release(&s->lock);
		pieces_gather(pieces, at, length);
		lock_acquire(&s->lock);
	}
	if (direct)
		message_post_direct(s, at, length, inlined, direct->addr, direct->key);
	else
		message_post_data(s, at, length, inlined);
	lock_release(&s->lock);
	return length;
}

static int why_not_sent(struct stream *s) EXCLUDES(s->lock)
{
	int error;

	lock_acquire(&s->lock);
	error = stream_take_error(s);
	if (!error)
		error = s->shut_send ? EPIPE : ECONNRESET;
	lock_release(&s->lock);
	return -error;
}

static int wait_to_send(struct stream *s, int flags)
{
	int rc = stream_wait(s, send_ready, stream_nonblocking(s, flags), 0);

	return !rc && !s->may_send ? why_not_sent(s) : rc;
}

ssize_t transfer_send(struct stream *s, struct pieces *pieces, int flags)
{
	ssize_t length = pieces_length(pieces), done = 0;
	int rc = length < 0 ? (int)length : may_begin(s, flags);

	if (!rc && !s->may_send)
		rc = why_not_sent(s);
	while (!rc && done < length) {
		size_t sent = 1;

		lock_acquire(&s->sending);
		while (sent && done < length) {
			sent = send_one(s, pieces, (size_t)(length - done), NULL);
			done += (ssize_t)sent;
		}
		lock_release(&s->sending);
		if (done < length)
			rc = wait_to_send(s, flags);
	}
	return done ? done : rc;
}

ssize_t transfer_send_to(struct stream *s, const void *data, size_t length, uint64_t offset,
			 int flags)
{
	struct iovec iov = { (void *)data, length };
	struct pieces pieces = { &iov, 1, 0 };
	size_t done = 0, sent;
	int rc = transfer_connected(s, flags);

	while (!rc && done < length) {
		struct region place;

		lock_acquire(&s->sending);
		do {
			sent = 0;
			if (!mapping_find(s, offset + done, &place))
				break;
			sent = send_one(s, &pieces, length - done, &place);
			done += sent;
		} while (sent && done < length);
		lock_release(&s->sending);
		if (!sent && !mapping_find(s, offset + done, &place))
			break;
		if (done < length)
			rc = wait_to_send(s, flags);
	}
	return done ? (ssize_t)done : rc;
}

/* Receiving */

static bool receive_ready(struct stream *s)
{
	return s->arrived != s->consumed || !s->may_receive;
}

static size_t receive_some(struct stream *s, struct pieces *pieces, size_t max, bool peek)
	REQUIRES(s->receiving)
{
	uint64_t from = s->consumed;
	uint64_t there = atomic_load_explicit(&s->arrived, memory_order_acquire) - from;
	size_t length = max < there ? max : (size_t)there, left = length;

	while (left) {
		uint32_t at = (uint32_t)(from % s->receive_bytes);
		uint32_t n = least(left, s->receive_bytes - at);

		pieces_scatter(pieces, s->receive_ring + at, n);
		from += n;
		left -= n;
	}
	if (!peek)
		atomic_store_explicit(&s->consumed, from, memory_order_release);
	return length;
}

/* Offers the peer the half that has been read, and credits. */
static void grant(struct stream *s) EXCLUDES(s->lock)
{
	if (!message_grant_due(s))
		return;
	lock_acquire(&s->lock);
	message_grant(s);
	lock_release(&s->lock);
}

static int end_of_stream(struct stream *s) EXCLUDES(s->lock)
{
	int error;

	lock_acquire(&s->lock);
	error = stream_take_error(s);
	lock_release(&s->lock);
	return -error;
}

ssize_t transfer_receive(struct stream *s, struct pieces *pieces, int flags)
{
	ssize_t length = pieces_length(pieces), done = 0;
	bool peek = flags & MSG_PEEK, all = (flags & MSG_WAITALL) && !peek;
	int rc = length < 0 ? (int)length : transfer_connected(s, flags);

	while (!rc && length) {
		/* Read first: data that arrived before the end is in the ring by then. */
		bool open = s->may_receive;

		lock_acquire(&s->receiving);
		done += (ssize_t)receive_some(s, pieces, (size_t)(length - done), peek);
		lock_release(&s->receiving);
		grant(s);
		if (done == length || (done && !all))
			break;
		if (!open) {
			rc = done ? 0 : end_of_stream(s);
			break;
		}
		rc = stream_wait(s, receive_ready, stream_nonblocking(s, flags), 0);
	}
	return done ? done : rc;
}
