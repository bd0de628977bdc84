/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Link - this process's connection to another process of the host (or to itself): two rings, the
 * other's arena, and the means to wake it.
 *
 * The adapter makes it when verbatimd hands over the descriptors. Requesters send on it, threads
 * that poll receive from it. The struct returns to a pool, never to the allocator, so a thread with
 * a stale pointer can lock it, and finds it not alive. The rings are unmapped when the other
 * process has died, the arena when the last reference is gone.
 *
 * Locks: rx_lock is the outermost lock of this path, tx_lock is taken inside QP locks, wait_lock is
 * innermost.
 */
#ifndef SHM_LINK_H
#define SHM_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/page.h"
#include "object/cq.h"
#include "shm/ring.h"
#include "memory/heap.h"
#include "memory/peer_arena.h"

/*
 * A link's shared memory: control lines at 0, then the two rings, each at an offset that can be
 * mapped whatever the page. What lies between is never touched.
 */
#define LINK_CONTROL_BYTES	  PAGE_BYTES_MAX
#define LINK_BYTES_OF(ring_bytes) (LINK_CONTROL_BYTES + 2 * (ring_bytes))

/* The length of each ring in memory of this length; 0: it is not that of a link. */
uint64_t link_ring_bytes(uint64_t bytes);

/* How memory is copied to and from the other process: see shm/xcopy.h. */
enum xcopy {
	XCOPY_NONE, /* not possible: all data goes by message */
	XCOPY_SELF, /* it is this process */
	XCOPY_VM,   /* process_vm_readv, process_vm_writev */
};

/*
 * A message that waits for its acknowledgement. There are many of them, so they are short: two
 * positions compare by the sign of their difference, as less than 2^31 units (128 GiB) lie between
 * an entry and any acknowledgement that it is compared with. Both are of records that the other end
 * has read, or can: they differ by the ring's length, and by what is sent between two looks at the
 * link.
 */
struct in_flight {
	uint32_t end; /* position after its last record, in units of RECORD_UNIT */
	uint32_t qpn;
	uint32_t epoch;
	uint32_t seq; /* of the WQE */
};

#define IN_FLIGHT_MAX 8192 /* a power of two: as many as there can be records in a long ring */

_Static_assert(IN_FLIGHT_MAX == RING_BYTES_MAX / RECORD_UNIT, "the ring is full first");

static inline uint32_t flight_position(uint64_t position)
{
	return (uint32_t)(position / RECORD_UNIT);
}

/* Whether `end` is after another such position. */
static inline bool flight_is_after(uint32_t end, uint32_t other)
{
	return (int32_t)(end - other) > 0;
}

/* Whether the other process polls: shm/attention.h. */
struct attention {
	_Atomic bool polls;
	_Atomic uint32_t left;	/* requests until the next try */
	_Atomic uint32_t pause; /* `left` after the last disappointment; 0: none since it polled */
	/* guarded by rx_lock */
	uint64_t acked; /* link->acked at the last look */
	uint32_t looks; /* in vain, while records are outstanding */
	uint32_t hasty; /* wake-ups before patience is tried again */
	uint32_t
		failed; /* `hasty` after the last trial; 0: nothing was woken since one succeeded */
	bool waits;	/* records were outstanding at the last look */
	bool woken;	/* since `looks` is counted */
};

#define COALESCED_MAX 16

/* Completions for one CQ that are not pushed yet: shm/responder.h. Empty between two turns. */
struct coalesced {
	struct cq *cq;
	uint64_t end; /* position after the record of the last one */
	uint32_t count;
	uint32_t solicited; /* 1 << place */
	struct cqe cqes[COALESCED_MAX];
};

struct nak_pending {
	uint32_t msn;  /* with its attempt */
	uint8_t nak;   /* enum nak; 0: none */
	uint8_t timer; /* RNR timer code */
	uint32_t cause;
};

/* A NAK that waits for room: nothing from the refused request on is acknowledged before it left. */
struct held_nak {
	struct list node; /* in link->held; else alone */
	uint64_t position;
};

/* The NAK of a QP that left its connection before the ring had room for the NAK. */
struct orphan_nak {
	struct list node; /* in link->orphans */
	uint32_t to, from;
	struct nak_pending nak;
	struct held_nak held;
};

struct link {
	struct link *next_free;
	uint32_t slot;
	pid_t pid;		/* as verbatimd saw it; if that was 0, as it says itself */
	_Atomic pid_t told_pid; /* as the verbatimd that told of it last sees it. adapter/peers.c */
	uint64_t arena_file;	/* the inode of its arena, by which it is known. adapter/peers.c */
	_Atomic bool alive;
	bool dying;  /* the other process is dead and reads no answers. Guarded by rx_lock */
	bool marked; /* the adapter has seen that its process is dying: adapter/peers.c */
	_Atomic bool broken; /* it ended with a broken ring: the other process may live, and copy */
	_Atomic uint32_t references; /* of QPs that are connected by it */
	enum xcopy xcopy;
	_Atomic pid_t xcopy_id;	    /* XCOPY_VM: the PID, or the TID of a thread that lives */
	int xcopy_error;	    /* XCOPY_NONE: why, an errno; 0: by VERBATIM_REACH */
	_Atomic bool xcopy_told;    /* XCOPY_NONE was reported */
	_Atomic bool stays_told;    /* so was that a region stays where it is */
	_Atomic uint32_t asked_key; /* the last region that the other process was asked to move */
	pid_t heap_of; /* the process that has mapped `heap`, not a child of its forks */
	struct arena_header *peer;
	int wake_fd;
	struct heap heap;
	/* the peer's, and its bit of arena_header.cold for us (shm/doorbell.h) */
	struct doorbell *bell;
	const _Atomic uint64_t *cold_word;
	uint64_t cold_bit;
	uint32_t own_slot;
	_Atomic bool used; /* a poll found work since the adapter looked (adapter/hot_links.h) */
	uint8_t unused_count;

	struct lock rx_lock; /* guards rx, acked and the head of in_flight */
	struct ring_consumer rx;
	/* of our records, as last processed; stored atomically, as requesters guess by it */
	uint64_t acked;
	struct attention attention;
	/* the peer's acked before RING-3 allows its use, and rx.head at that time; 0: none */
	uint64_t late_acked, late_head;
	uint64_t rx_end;  /* position after the record that is being processed */
	uint64_t fetched; /* bytes of payload that records named, ever (shm/rendezvous.h) */
	/*
	 * the peer's records below were executed (RING-4). Stored under rx_lock, read by requesters
	 */
	_Atomic uint64_t executed;

	struct lock tx_lock; /* guards tx and the tail of in_flight */
	struct ring_producer tx;
	uint64_t seen_tail; /* tx.tail in the last link_is_broken */
	uint64_t rest_tail; /* tx.tail in the last link_give_back, */
	uint32_t rests;	    /* and for how many calls it has been that; LINK_RESTS at most */
	struct in_flight *in_flight; /* IN_FLIGHT_MAX entries; link_flights are used */
	_Atomic uint32_t flight_head, flight_tail;

	struct lock wait_lock; /* guards the lists and what they hold */
	struct list blocked;   /* QPs with requests that found no room */
	struct list turned;    /* QPs whose turn is over, with more requests to issue */
	struct list answering; /* QPs with answers to send */
	/* struct orphan_nak: NAKs of QPs that are gone; sent before `answering` */
	struct list orphans;
	struct list held; /* struct held_nak, in the order of their positions */
	uint32_t blocked_count, turned_count, answering_count;
	_Atomic bool waiting; /* one of the lists may not be empty */
	_Atomic bool again;   /* `turned` is not empty */

	struct coalesced coalesced; /* guarded by rx_lock */

	/* Changed by link_move alone, under both rx_lock and tx_lock, as are the rings. */
	struct link_shared *shared;
	ino_t number; /* inode of the memory's file: the same for both ends */

	/* The other's, read-only; our own in the link to ourselves. Long, so it is the last. */
	struct peer_arena arena;
};

/* At the beginning of the shared memory, in LINK_CONTROL_BYTES. */
struct link_shared {
	struct ring_control control[2];
	/*
	 * Ends that use this memory, 1 << side each; LINK_LEFT: the first end left before the
	 * second came.
	 */
	_Alignas(64) _Atomic uint32_t ends;
};

#define LINK_LEFT 4u

/*
 * Makes a link. `shared_fd` has a link's length (link_ring_bytes); `side` says which ring is ours
 * to write (0 or 1; LINK_SELF: the link to oneself, which has one ring for both). `pid` is as
 * verbatimd sees it; in another PID namespace it may be this process's own. The link takes
 * over `*arena`, which is open, `wake_fd` and `heap_fd`, the other's heap (-1: not used). Returns
 * NULL with errno; then arena and descriptors are still the caller's.
 */
#define LINK_SELF (-1)
struct link *link_create(uint32_t slot, pid_t pid, int side, int shared_fd,
			 struct peer_arena *arena, int wake_fd, int heap_fd);

/*
 * Lets threads use the link; before, threads that find it ignore it. False: the other end has left
 * its memory, see link_move.
 */
bool link_start(struct link *link);

/*
 * A verbatimd that did not make the link offers memory for it again. Both ends have to use the same
 * memory.
 *
 * If both ends have started with the present memory (`ends`), it stays. If the other end has not,
 * it may not know that memory, as the old verbatimd may have ended before it notified both ends.
 * Then this end leaves it, starts with the offered memory, and copies the records that it has sent.
 *
 * Leaving and starting are compare-and-swaps of one word. So an end never starts with memory that
 * the other has left, nor leaves memory that the other has started with. Both ends take the two
 * words in the same order, so that they do not swap places. True: the link has moved.
 */
bool link_move(struct link *link, int side, int shared_fd);

/* Whether the other end has started with this memory. */
bool link_is_shared(struct link *link);

/*
 * For a link that is not started: true if this process had a link with the same memory before, and
 * has executed the records in it. This happens if the other process died while verbatimd was asked
 * for the link.
 */
bool link_is_spent(const struct link *link);
void link_reset_after_fork(void);

void link_get(struct link *link);
void link_put(struct link *link);

/* The position after the last record sent. */
uint64_t link_sent(struct link *link);
/* Whether the other end has executed all records below `position`. */
bool link_executed(struct link *link, uint64_t position);

/*
 * Whether one of its rings is broken (shm/ring.h), while it is alive. False, too, while another
 * thread is at it. Records that the other end leaves alone from one call to the next, which is a
 * second later, are looked at.
 */
bool link_is_broken(struct link *link);

/*
 * Gives back the memory of the ring that we write, if nothing was sent for LINK_RESTS calls, which
 * are a second apart, and 64 KiB or more since the last time. Does nothing while another thread
 * sends.
 */
#define LINK_RESTS 5
void link_give_back(struct link *link);

/*
 * Unmaps the rings, after the last progress; the struct goes to the pool with the last reference.
 */
void link_close(struct link *link);

/*
 * Records were published: wakes the other process if all its threads sleep. No fence is needed
 * here: the other half of barrier WAKEUP is the membarrier of its progress thread, between storing
 * need_wakeup and looking at the rings once more.
 */
void link_wake(struct link *link);

/* The other process's pollers do not look at this link: rings its doorbell, or wakes it. */
void link_ring(struct link *link);

/*
 * Work for this process's own turns at the link was stored in its lists: `waiting` is set, and if
 * the link is cold the own doorbell rings. Caller holds wait_lock.
 */
void link_leave_work(struct link *link) REQUIRES(link->wait_lock);

/* base/check.h: what each lock guards. */
void link_check_tx(const struct link *link) REQUIRES(link->tx_lock);
void link_check_rx(const struct link *link) REQUIRES(link->rx_lock);
void link_check_waiting(const struct link *link) REQUIRES(link->wait_lock);

/* How many entries of in_flight are used: as many as there can be records in the ring. */
static inline uint32_t link_flights(const struct link *link)
{
	return (uint32_t)(link->tx.bytes / RECORD_UNIT);
}

/* The entry of the message with this number. */
static inline struct in_flight *link_flight(const struct link *link, uint32_t number)
{
	return &link->in_flight[number & (link_flights(link) - 1)];
}

static inline void link_notify(struct link *link)
{
	atomic_signal_fence(memory_order_seq_cst); /* WAKEUP, BELL */
	if (atomic_load_explicit(link->cold_word, memory_order_relaxed) & link->cold_bit)
		link_ring(link);
	if (atomic_load_explicit(&link->peer->need_wakeup, memory_order_relaxed))
		link_wake(link);
}

#endif
