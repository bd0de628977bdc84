/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ring - records from one process to another, through memory they share: one producer, one
 * consumer.
 *
 * Positions are bytes since the ring's creation (uint64, never wrap); a record lies at position
 * modulo the ring's length. Each side maps the beginning of the data once more behind their end, so
 * that a record is contiguous.
 *
 * A record is published once its word is not 0. Barriers:
 *   RING-1  ring_publish zeroes the word after the new record, then stores the record's word with
 *           release; ring_peek loads the word with acquire. So a consumer that sees the word sees
 *           the record, and finds 0 after it until the next one is published.
 *   RING-2  ring_release stores head with release after the last read of a record; ring_reserve
 *           loads it with acquire before it overwrites, and ring_give_back before it gives back
 *           pages.
 *   RING-3  ring_acknowledge stores acked with release, after the records were executed, and
 *           their NAKs stand in the other direction's ring. The completer loads acked with acquire,
 *           then reads the other direction until it is empty, and only then uses acked.
 *   RING-4  a request carries, in `acked`, how far its sender had executed records of the other
 *           direction when it was published. So if a program answers a message, the message
 *           completes at its sender before the answer does; on a wire the ACK goes first.
 *
 * Values of the other process are not trusted: an index that runs backwards, or past the last
 * record, or a record that is not sane, marks the ring broken. It stays so, and the adapter ends
 * the link (progress_on_broken_ring).
 */
#ifndef SHM_RING_H
#define SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prefetch.h"
#include "shm/record.h"

/* A power of two; verbatimd chooses it for both rings of a link, by the length of their memory. */
#define RING_BYTES_MIN (256 * 1024)
#define RING_BYTES_MAX (512 * 1024)

/* The consumer releases room in pieces of so much, so the head is at most that late. */
#define RING_RELEASE_BYTES (RING_BYTES_MIN / 16)

/* A record of so many units is small (ring_fetch_ahead). */
#define RING_FETCH_UNITS 2

/* In shared memory; written by the consumer only. */
struct ring_control {
	_Alignas(64) _Atomic uint64_t head; /* consumed: the producer may overwrite records below */
	_Atomic uint64_t acked;		    /* executed, or answered */
	_Atomic bool begun;		    /* a consumer has begun; see link_is_spent */
};

struct ring_producer {
	char *data;
	uint64_t bytes;
	struct ring_control *control;
	uint64_t tail;	/* next to write; stored atomically (shm/attention.h) */
	uint64_t head;	/* as last seen */
	uint64_t given; /* tail when a ring_give_back last gave back nearly all */
	bool broken;
};

struct ring_consumer {
	char *data;
	uint64_t bytes;
	struct ring_control *control;
	uint64_t head;	   /* next to read */
	uint64_t released; /* head as last stored */
	uint64_t acked;	   /* as last stored */
	bool news;	   /* acked was stored since the last ring_release */
	uint64_t hold;	   /* acked may not pass it; UINT64_MAX: no limit */
	bool broken;
};

/* Where a record lies, in a ring of so many bytes. */
static inline struct record *ring_at(char *data, uint64_t bytes, uint64_t position)
{
	return (struct record *)(data + (position & (bytes - 1)));
}

/*
 * Room that requests and data leave free for NAKs. A consumer without room for a NAK cannot
 * continue. If both ends waited for each other so, or one process for itself, they would wait for
 * ever. A NAK is never longer than the record that it answers, and each QP has at most one under
 * way.
 */
#define RING_FOR_NAKS (RING_BYTES_MIN / 4)

/*
 * Room for a record with this payload, with `spare` bytes left over (0 for a NAK, else
 * RING_FOR_NAKS), or NULL: full (or broken). Takes no room before ring_publish.
 */
static inline struct record *ring_reserve(struct ring_producer *ring, uint32_t bytes,
					  uint64_t spare)
{
	uint64_t need = (uint64_t)record_units(bytes) * RECORD_UNIT + RECORD_UNIT + spare;

	if (ring->tail + need - ring->head > ring->bytes) {
		uint64_t head = atomic_load_explicit(&ring->control->head,
						     memory_order_acquire); /* RING-2 */

		if (head - ring->head > ring->tail - ring->head)
			ring->broken = true;
		if (ring->broken)
			return NULL;
		ring->head = head;
		if (ring->tail + need - head > ring->bytes)
			return NULL;
	}
	return ring_at(ring->data, ring->bytes, ring->tail);
}

/*
 * The consumer has read the next cache lines a lap ago. So a store there waits until they have come
 * from its processor, and all later stores wait for that. For small records in a row the producer
 * fetches them three records ahead. Measured with other distances, that is the best: with one, the
 * store comes before the line. Rows of longer records the processor sees by itself.
 */
static inline void ring_fetch_ahead(const struct record *next, uint32_t units)
{
	if (units > RING_FETCH_UNITS)
		return;
	for (uint32_t i = 0; i < units; i++)
		prefetch_for_write((const char *)next + (2 * units + i) * RECORD_UNIT);
}

/* `header` of the record is filled except its word. Returns the position after the record. */
static inline uint64_t ring_publish(struct ring_producer *ring, struct record *record,
				    uint32_t word)
{
	uint64_t end = ring->tail + (uint64_t)(word >> 16) * RECORD_UNIT;
	struct record *next = ring_at(ring->data, ring->bytes, end);

	__atomic_store_n(&next->header.word, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&record->header.word, word, __ATOMIC_RELEASE); /* RING-1 */
	__atomic_store_n(&ring->tail, end, __ATOMIC_RELAXED);
	ring_fetch_ahead(next, word >> 16);
	return end;
}

/*
 * The oldest record that was not consumed, or NULL. *header is a sane copy, which the other process
 * cannot change any more.
 */
static inline struct record *ring_peek(struct ring_consumer *ring, struct record_header *header)
{
	struct record *record = ring_at(ring->data, ring->bytes, ring->head);
	uint32_t word = __atomic_load_n(&record->header.word, __ATOMIC_ACQUIRE); /* RING-1 */

	if (word == 0 || ring->broken)
		return NULL;
	*header = record->header;
	atomic_signal_fence(memory_order_seq_cst); /* checks and uses the copy only */
	header->word = word;
	if (!record_is_sane(header)) {
		ring->broken = true;
		return NULL;
	}
	return record;
}

static inline void ring_advance(struct ring_consumer *ring, const struct record_header *header)
{
	ring->head += record_size(header);
}

/*
 * The responder has executed all records up to `end`, which may be ahead of head. It calls this
 * before the program can see their completions, as the program may exit then.
 */
static inline void ring_acknowledge(struct ring_consumer *ring, uint64_t end)
{
	uint64_t acked = end < ring->hold ? end : ring->hold;

	if (acked <= ring->acked)
		return;
	ring->acked = acked;
	ring->news = true;
	atomic_store_explicit(&ring->control->acked, acked, memory_order_release); /* RING-3 */
}

/* Gives the producer all the room there is. */
static inline void ring_release_room(struct ring_consumer *ring)
{
	atomic_store_explicit(&ring->control->head, ring->head, memory_order_release); /* RING-2 */
	ring->released = ring->head;
}

/*
 * Stores the consumer's progress for the producer. True: acked has changed since the last call.
 * Room is released in large pieces, so that a small message costs one store. A producer that finds
 * the ring full has more than such a piece in it.
 */
static inline bool ring_release(struct ring_consumer *ring)
{
	bool news;

	ring_acknowledge(ring, ring->head);
	news = ring->news;
	ring->news = false;
	if (ring->head - ring->released < RING_RELEASE_BYTES)
		return news;
	ring_release_room(ring);
	return true;
}

/* Whether the consumer's head is one that there can be. */
bool ring_has_head(const struct ring_producer *ring);

/* Tells the producer, by a head that there cannot be, that its records are not read any more. */
void ring_refuse(struct ring_consumer *ring);

/*
 * Whether what was published, and not consumed, is still there: a record that became 0 looks as if
 * none had been published.
 */
bool ring_is_whole(struct ring_producer *ring);

/*
 * Makes the ring broken for its consumer, at the next record that it looks at, if the records lead
 * there, else behind the last one. Payload is left alone, as the consumer may be at a record.
 * Nothing is published any more.
 */
void ring_break(struct ring_producer *ring);

/*
 * Gives back the memory of all pages that lie between the end of the last record, with the 0 word
 * after it, and the first record that the consumer may read. The producer may write there at any
 * time; here the kernel writes zeros for it, which the consumer does not read. The next record that
 * reaches such a page gets a new one. Nothing is published meanwhile. Pages that are locked
 * (mlockall) stay. What a consumer that lags has not released yet is left for a later call.
 */
void ring_give_back(struct ring_producer *ring);

/*
 * Maps `bytes` at `offset` of `fd`, and behind that once more so many of them as a record may have.
 * Returns MAP_FAILED and errno on failure; ring_unmap undoes it.
 */
char *ring_map(int fd, size_t offset, uint64_t bytes);
void ring_unmap(char *data, uint64_t bytes);

#endif
