/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/link.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/syscall.h"
#include "base/uncancelled.h"
#include "memory/migrate.h"
#include "base/sleeper.h"
#include "shm/doorbell.h"

static struct lock pool_lock = LOCK_INITIALIZER;
static struct link *pool; /* guarded by pool_lock */

static struct link *take_struct(void)
{
	struct link *link;

	lock_acquire(&pool_lock);
	link = pool;
	if (link)
		pool = link->next_free;
	lock_release(&pool_lock);
	if (link)
		return link;
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	link->in_flight = calloc(IN_FLIGHT_MAX, sizeof(*link->in_flight));
	if (!link->in_flight) {
		free(link);
		return NULL;
	}
	lock_init(&link->rx_lock);
	lock_init(&link->tx_lock);
	lock_init(&link->wait_lock);
	return link;
}

static void give_struct(struct link *link)
{
	lock_acquire(&pool_lock);
	link->next_free = pool;
	pool = link;
	lock_release(&pool_lock);
}

/* This process's mapping of the memory that both ends share. */
struct mapped {
	struct link_shared *shared;
	ino_t number;
	uint64_t ring_bytes;
	char *tx, *rx;
};

uint64_t link_ring_bytes(uint64_t bytes)
{
	for (uint64_t ring = RING_BYTES_MIN; ring <= RING_BYTES_MAX; ring *= 2)
		if (bytes == LINK_BYTES_OF(ring))
			return ring;
	return 0;
}

/* What lies behind it, up to the rings, nobody uses. */
static size_t control_bytes(void)
{
	return page_round_up(sizeof(struct link_shared));
}

static bool map_memory(struct mapped *m, int fd, int tx_side, int rx_side)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	m->number = st.st_ino;
	m->ring_bytes = link_ring_bytes((uint64_t)st.st_size);
	if (!m->ring_bytes) {
		errno = EINVAL;
		return false;
	}
	m->shared = mmap(NULL, control_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m->shared == MAP_FAILED)
		return false;
	m->tx = ring_map(fd, LINK_CONTROL_BYTES + (size_t)tx_side * m->ring_bytes, m->ring_bytes);
	if (m->tx == MAP_FAILED)
		goto unmap_control;
	m->rx = ring_map(fd, LINK_CONTROL_BYTES + (size_t)rx_side * m->ring_bytes, m->ring_bytes);
	if (m->rx != MAP_FAILED)
		return true;
	ring_unmap(m->tx, m->ring_bytes);
unmap_control:
	munmap(m->shared, control_bytes());
	return false;
}

static void unmap_memory(const struct mapped *m)
{
	ring_unmap(m->tx, m->ring_bytes);
	ring_unmap(m->rx, m->ring_bytes);
	munmap(m->shared, control_bytes());
}

static struct mapped mapped_by(const struct link *link)
{
	return (struct mapped){ link->shared, link->number, link->tx.bytes, link->tx.data,
				link->rx.data };
}

static void put_memory(struct link *link, const struct mapped *m, int tx_side, int rx_side)
{
	link->shared = m->shared;
	link->number = m->number;
	link->tx.data = m->tx;
	link->rx.data = m->rx;
	link->tx.bytes = link->rx.bytes = m->ring_bytes;
	link->tx.control = &m->shared->control[tx_side];
	link->rx.control = &m->shared->control[rx_side];
}

/* With migration off, the other's heap is not used. */
static int wanted_heap(int fd)
{
	if (fd < 0 || migrate_wish() != MOVE_NEVER)
		return fd;
	close(fd);
	return -1;
}

struct link *link_create(uint32_t slot, pid_t pid, int side, int shared_fd,
			 struct peer_arena *arena, int wake_fd, int heap_fd)
{
	struct link *link = take_struct();
	bool own = side == LINK_SELF;
	int tx_side = own ? 0 : side, rx_side = own ? 0 : !side;
	struct mapped m;

	if (!link)
		return NULL;
	if (!map_memory(&m, shared_fd, tx_side, rx_side)) {
		give_struct(link);
		return NULL;
	}
	link->tx = (struct ring_producer){ 0 };
	link->rx = (struct ring_consumer){ .hold = UINT64_MAX };
	put_memory(link, &m, tx_side, rx_side);
	link->slot = slot;
	link->pid = pid;
	peer_arena_move(&link->arena, arena);
	link->peer = peer_arena_header(&link->arena);
	link->wake_fd = wake_fd;
	link->own_slot = doorbell_slot();
	link->bell = doorbell_map(heap_fd);
	link->cold_word = &link->peer->cold[link->own_slot / 64];
	link->cold_bit = 1ull << link->own_slot % 64;
	link->used = false;
	link->unused_count = 0;
	heap_init(&link->heap, wanted_heap(heap_fd));
	link->heap_of = getpid();
	link->acked = link->rx_end = 0;
	link->coalesced.count = 0;
	link->attention = (struct attention){ 0 };
	link->executed = 0;
	link->flight_head = link->flight_tail = 0;
	link->xcopy = own ? XCOPY_SELF : XCOPY_NONE;
	link->xcopy_id = pid;
	link->xcopy_error = 0;
	link->xcopy_told = link->stays_told = false;
	link->asked_key = 0;
	list_init(&link->blocked);
	list_init(&link->turned);
	list_init(&link->orphans);
	list_init(&link->held);
	link->blocked_count = link->turned_count = link->answering_count = 0;
	list_init(&link->answering);
	link->waiting = link->again = false;
	link->references = 1;
	link->dying = link->marked = false;
	link->broken = false;
	link->seen_tail = link->rest_tail = 0;
	link->rests = 0;
	link->late_acked = 0;
	return link;
}

/* False: the other end has left it, or this end was there before. */
static bool start_with(struct link_shared *shared, int rx_side)
{
	uint32_t ends = atomic_load(&shared->ends), own = 1u << !rx_side;

	do {
		if (ends & (LINK_LEFT | own))
			return false;
	} while (!atomic_compare_exchange_weak(&shared->ends, &ends, ends | own));
	atomic_store_explicit(&shared->control[rx_side].begun, true, memory_order_relaxed);
	return true;
}

/* False: the other end has started with it. */
static bool leave(struct link_shared *shared, int rx_side)
{
	uint32_t alone = 1u << !rx_side;

	return atomic_compare_exchange_strong(&shared->ends, &alone, alone | LINK_LEFT) ||
	       alone & LINK_LEFT;
}

static int rx_side_of(const struct link *link)
{
	return link->rx.control == &link->shared->control[1];
}

bool link_start(struct link *link)
{
	if (link->xcopy == XCOPY_SELF)
		atomic_store_explicit(&link->rx.control->begun, true, memory_order_relaxed);
	else if (!start_with(link->shared, rx_side_of(link)))
		return false;
	link->alive = true;
	return true;
}

bool link_is_shared(struct link *link)
{
	bool is_shared = true;

	lock_acquire(&link->tx_lock);
	if (link->alive && link->xcopy != XCOPY_SELF)
		is_shared = atomic_load(&link->shared->ends) & 1u << rx_side_of(link);
	lock_release(&link->tx_lock);
	return is_shared;
}

/*
 * Copies the sent records. The other end has consumed none, so they begin at 0. RING-1: the
 * consumer sees no record before the first word is stored, and the memory after the last record is
 * 0.
 */
static void take_along(const struct link *link, char *to)
{
	struct record *first = (struct record *)to;
	const struct record *sent = (const struct record *)link->tx.data;
	uint32_t word = sent->header.word;

	_Static_assert(offsetof(struct record, header.word) == 0, "the word is first");
	if (!link->tx.tail)
		return;
	memcpy(to + sizeof(word), link->tx.data + sizeof(word), link->tx.tail - sizeof(word));
	__atomic_store_n(&first->header.word, word, __ATOMIC_RELEASE);
}

/*
 * Leaves `from` and starts with `to`. Both ends change the two words in the same order. So if each
 * end moves to the other's memory, the first step of one of them fails, and that end stays.
 */
static bool exchange(struct link_shared *from, ino_t from_number, struct link_shared *to,
		     ino_t to_number, int rx_side)
{
	if (from_number < to_number)
		return leave(from, rx_side) && start_with(to, rx_side);
	return start_with(to, rx_side) && leave(from, rx_side);
}

/* The other end finds a head that there cannot be. */
static void refuse(struct link_shared *shared, int rx_side)
{
	atomic_store_explicit(&shared->control[rx_side].head, UINT64_MAX, memory_order_release);
}

/*
 * What was sent does not fit, as the next verbatimd has made shorter memory: the link ends, and so
 * does that of the other end, which is in that memory or will be.
 */
static void give_up(struct link *link, const struct mapped *to, int rx_side)
{
	if (!exchange(link->shared, link->number, to->shared, to->number, rx_side))
		return;
	link->tx.broken = true;
	refuse(to->shared, rx_side);
}

/* Under both locks, so that no thread is at the rings. */
static bool move(struct link *link, const struct mapped *to, int tx_side, int rx_side)
{
	if (!link->alive || link->xcopy == XCOPY_SELF || rx_side != rx_side_of(link) ||
	    link->rx.head)
		return false;
	if (atomic_load(&to->shared->ends) & (LINK_LEFT | 1u << tx_side))
		return false;
	if (link->tx.tail >= to->ring_bytes) {
		give_up(link, to, rx_side);
		return false;
	}
	if (!exchange(link->shared, link->number, to->shared, to->number, rx_side))
		return false;
	take_along(link, to->tx);
	link->tx.head = 0;
	return true;
}

/*
 * A link that has ended is not replaced while both processes live. So the other end's has to end,
 * too.
 */
static void refuse_offer(int side, int shared_fd)
{
	struct mapped m;

	if (!map_memory(&m, shared_fd, side, !side))
		return;
	if (start_with(m.shared, !side))
		refuse(m.shared, !side);
	unmap_memory(&m);
}

bool link_move(struct link *link, int side, int shared_fd)
{
	struct mapped old, m;
	bool moved;

	if (link->broken) {
		refuse_offer(side, shared_fd);
		return false;
	}
	if (link_is_shared(link) || !map_memory(&m, shared_fd, side, !side))
		return false;
	lock_acquire(&link->rx_lock);
	lock_acquire(&link->tx_lock);
	moved = move(link, &m, side, !side);
	if (moved) {
		old = mapped_by(link);
		put_memory(link, &m, side, !side);
		m = old;
	}
	CHECK(link_check_tx(link));
	CHECK(link_check_rx(link));
	lock_release(&link->tx_lock);
	lock_release(&link->rx_lock);
	unmap_memory(&m);
	return moved;
}

bool link_is_spent(const struct link *link)
{
	return atomic_load_explicit(&link->rx.control->begun, memory_order_relaxed);
}

void link_reset_after_fork(void)
{
	lock_acquire_in_child(&pool_lock);
	pool = NULL;
	lock_release(&pool_lock);
}

void link_get(struct link *link)
{
	atomic_fetch_add(&link->references, 1);
}

/* Drops NAKs whose requesters are dead, or have lost the connection. */
static void drop_orphans(struct link *link)
{
	while (!list_empty(&link->orphans)) {
		struct orphan_nak *first = list_entry(link->orphans.next, struct orphan_nak, node);

		list_del(&first->held.node);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed one is in no list */
		list_del(&first->node);
		free(first);
	}
}

void link_put(struct link *link)
{
	if (atomic_fetch_sub(&link->references, 1) != 1)
		return;

	UNCANCELLED;

	drop_orphans(link); /* no QP can add one any more */
	close(link->wake_fd);
	if (link->heap_of == getpid()) {
		peer_arena_close(&link->arena);
		heap_fini(&link->heap);
		doorbell_unmap(link->bell);
	} else {
		peer_arena_close_in_child(&link->arena);
		heap_forget(&link->heap);
	}
	give_struct(link);
}

uint64_t link_sent(struct link *link)
{
	uint64_t position;

	lock_acquire(&link->tx_lock);
	position = link->tx.tail;
	lock_release(&link->tx_lock);
	return position;
}

bool link_executed(struct link *link, uint64_t position)
{
	bool executed = true;

	lock_acquire(&link->tx_lock);
	if (link->alive)
		executed = atomic_load_explicit(&link->tx.control->acked, memory_order_acquire) >=
			   position;
	lock_release(&link->tx_lock);
	return executed;
}

static bool tx_is_broken(struct link *link) REQUIRES(link->tx_lock)
{
	bool rests = link->tx.tail == link->seen_tail &&
		     atomic_load_explicit(&link->tx.control->acked, memory_order_relaxed) <
			     link->tx.tail;

	link->seen_tail = link->tx.tail;
	return link->tx.broken || !ring_has_head(&link->tx) || (rests && !ring_is_whole(&link->tx));
}

bool link_is_broken(struct link *link)
{
	bool broken = false;

	if (!lock_try(&link->rx_lock))
		return false;
	if (lock_try(&link->tx_lock)) {
		broken = link->alive && (link->rx.broken || tx_is_broken(link));
		lock_release(&link->tx_lock);
	}
	lock_release(&link->rx_lock);
	return broken;
}

static bool tx_rests(struct link *link) REQUIRES(link->tx_lock)
{
	if (link->tx.tail != link->rest_tail)
		link->rests = 0;
	else if (link->rests < LINK_RESTS)
		link->rests++;
	link->rest_tail = link->tx.tail;
	return link->rests == LINK_RESTS;
}

void link_give_back(struct link *link)
{
	if (!lock_try(&link->tx_lock))
		return;
	if (tx_rests(link) && link->alive && !link->broken && !link->tx.broken &&
	    link->tx.tail - link->tx.given >= PAGE_BYTES_MAX)
		ring_give_back(&link->tx);
	lock_release(&link->tx_lock);
}

void link_close(struct link *link)
{
	struct mapped own;

	lock_acquire(&link->rx_lock);
	lock_acquire(&link->tx_lock);
	link->alive = false;
	link->rx.broken = link->tx.broken = true;
	own = mapped_by(link);
	unmap_memory(&own);
	lock_release(&link->tx_lock);
	lock_release(&link->rx_lock);
	link_put(link);
}

void link_wake(struct link *link)
{
	uint64_t one = 1;

	if (link->bell && sleeper_wake_other(&link->bell->sleeper))
		return;
	if (sys_write(link->wake_fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: the counter is full, so it is awake already */
}

void link_ring(struct link *link)
{
	if (link->bell)
		doorbell_ring(link->bell, link->own_slot);
	else
		link_wake(link); /* its progress thread looks at all links */
}

void link_leave_work(struct link *link)
{
	atomic_store_explicit(&link->waiting, true, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst); /* BELL */
	if (doorbell_own && doorbell_is_cold(link->slot))
		doorbell_ring(doorbell_own, link->slot);
}

#ifdef VERBATIM_CHECK
/*
 * The checks do not look at values that the other end stores, nor at link->acked, which comes from
 * there: those are not invariants.
 */

/*
 * The sending side of a link:
 * - the ring holds no more than its size, and its records begin at multiples of RECORD_UNIT;
 * - no more messages wait for their acknowledgement than in_flight has entries for;
 * - these are in the order of their records, and none ends after the last published one.
 */
void link_check_tx(const struct link *link)
{
	const struct ring_producer *tx = &link->tx;
	uint32_t head = atomic_load_explicit(&link->flight_head, memory_order_acquire);
	uint32_t tail = atomic_load_explicit(&link->flight_tail, memory_order_relaxed);
	const struct in_flight *last = link_flight(link, tail - 1);

	INVARIANT(tx->head <= tx->tail && tx->tail - tx->head <= tx->bytes &&
			  tx->tail % RECORD_UNIT == 0,
		  "slot %u: head %llu tail %llu", link->slot, (unsigned long long)tx->head,
		  (unsigned long long)tx->tail);
	INVARIANT(tail - head <= link_flights(link), "slot %u: %u messages in flight", link->slot,
		  tail - head);
	if (tail == head)
		return;
	INVARIANT(!flight_is_after(last->end, flight_position(tx->tail)),
		  "slot %u: the last message ends at unit %u, tail %llu", link->slot, last->end,
		  (unsigned long long)tx->tail);
	if (tail - head > 1)
		INVARIANT(flight_is_after(last->end, link_flight(link, tail - 2)->end),
			  "slot %u: message %u ends at unit %u, the next one at %u", link->slot,
			  tail - 2, link_flight(link, tail - 2)->end, last->end);
}

/*
 * The receiving side of a link:
 * - released <= head <= rx_end: released records were read, and records that were read were
 *   processed;
 * - acknowledged and executed records were processed;
 * - no completion waits to be pushed;
 * - room is released before the producer could wait for it (ring_release);
 * - late_acked was loaded at a position that was read.
 */
void link_check_rx(const struct link *link)
{
	const struct ring_consumer *rx = &link->rx;
	uint64_t executed = atomic_load_explicit(&link->executed, memory_order_relaxed);

	INVARIANT(rx->released <= rx->head && rx->head <= link->rx_end &&
			  rx->head % RECORD_UNIT == 0,
		  "slot %u: released %llu head %llu end %llu", link->slot,
		  (unsigned long long)rx->released, (unsigned long long)rx->head,
		  (unsigned long long)link->rx_end);
	INVARIANT(!link->coalesced.count, "slot %u: %u completions", link->slot,
		  link->coalesced.count);
	INVARIANT(rx->acked <= link->rx_end && executed <= link->rx_end,
		  "slot %u: acknowledged %llu, executed %llu, end %llu", link->slot,
		  (unsigned long long)rx->acked, (unsigned long long)executed,
		  (unsigned long long)link->rx_end);
	INVARIANT(rx->head - rx->released < RING_RELEASE_BYTES,
		  "slot %u: %llu bytes not given back", link->slot,
		  (unsigned long long)(rx->head - rx->released));
	INVARIANT(!link->late_acked || link->late_head <= rx->head,
		  "slot %u: head %llu, late head %llu", link->slot, (unsigned long long)rx->head,
		  (unsigned long long)link->late_head);
}

static void check_list(const struct link *link, const struct list *list, uint32_t count)
{
	size_t length;

	if (!check_sometimes(count / 16 + 1))
		return;
	length = list_check(list, count);
	INVARIANT(length == count, "slot %u: %zu QPs, counted %u", link->slot, length, count);
}

/* The QPs that wait on a link: each list is consistent, and as long as its count. */
void link_check_waiting(const struct link *link)
{
	check_list(link, &link->blocked, link->blocked_count);
	check_list(link, &link->turned, link->turned_count);
	check_list(link, &link->answering, link->answering_count);
}
#endif
