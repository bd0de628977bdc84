/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arena - the memfd that a process shares with the other processes of its user: its format.
 *
 * The owner maps it read-write; peers and tools map it read-only, through a descriptor that
 * verbatimd handed them. It is sealed against resizing, so a mapping can never fault, and against
 * writing through new mappings. A reader must not trust it: it checks every value before use, and
 * works with indexes and offsets, never with pointers found in it.
 *
 *   offset    size      what
 *   0         2 KiB     struct arena_header
 *   2 KiB     2 KiB     32 x struct arena_port: UDP ports this process has open
 *   4 KiB     4 KiB     64 x struct arena_hazard_line: hazard pointers of this process's threads
 *   8 KiB     4 KiB     16 x struct arena_device: devices this process has open
 *   12 KiB    64 KiB    256 x struct arena_cause: the ring of causes (base/cause.h)
 *   76 KiB    4 KiB     512 counters of what belongs to no device (base/counter.h)
 *   80 KiB    8 KiB     16 x 64 counters, of each device
 *   88 KiB    32 KiB    256 x struct arena_traffic: what UDP ports have sent and received
 *   128 KiB   1 MiB     16,384 x struct arena_qp, by the index of a QPN
 *   2 MiB     4 MiB     65,536 x struct arena_key, by the index of a memory key
 *
 * Pages that were never written take no memory.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#define ARENA_MAGIC   0x766572626174696dull /* "verbatim" */
#define ARENA_VERSION 5

#define ARENA_PORTS    32
#define ARENA_DEVICES  16
#define ARENA_CAUSES   256
#define ARENA_COUNTERS 512
#define ARENA_TRAFFIC  256
#define ARENA_QPS      16384 /* a QPN is slot << ARENA_QP_BITS | index */
#define ARENA_QP_BITS  14
#define ARENA_KEYS     65536
#define SLOT_MAX       1023
#define SLOT_COUNT     (SLOT_MAX + 1)

#define ARENA_ADDRESSES	      64
#define ARENA_DEVICE_COUNTERS 64
#define ARENA_HAZARD_LINES    64
#define ARENA_LINE_HAZARDS    3 /* as many as a thread can have */
#define ARENA_HAZARDS	      (ARENA_HAZARD_LINES * ARENA_LINE_HAZARDS)
#define ARENA_QPS_A_BIT	      1024 /* of arena_header.qps_used */

/* A GID, its two halves in network order. Barrier ADDRESS, in adapter/contexts.c and path.c. */
struct arena_address {
	_Atomic uint64_t prefix, interface;
};

struct arena_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slot;
	uint32_t pid;
	uint32_t uid;
	char comm[16];
	uint64_t start_ns; /* CLOCK_REALTIME */
	/* random; with cookie_addr shows whether process_vm_readv reaches the owner */
	uint64_t cookie;
	uint64_t cookie_addr; /* where the owner's own mapping has the cookie */
	/*
	 * 0: a thread of the owner polls, or will soon; else peers that queue work write the
	 * eventfd
	 */
	_Alignas(64) _Atomic uint32_t need_wakeup;
	/* a robust futex: the kernel marks it when the owner dies (adapter/liveness.h) */
	_Atomic uint32_t liveness;
	uintptr_t liveness_list[4]; /* the robust list of the owner's progress thread */
	/* a bit for each ARENA_QPS_A_BIT indexes of QPs: some have been in use; peers map those */
	_Atomic uint32_t qps_used;
	/*
	 * a bit for each slot: no poll of the owner looks at the link to it, so who leaves work
	 * there rings the owner's doorbell (shm/doorbell.h)
	 */
	_Alignas(64) _Atomic uint64_t cold[SLOT_COUNT / 64];
	_Alignas(64) _Atomic uint64_t cause_next; /* causes written so far */
	/*
	 * GIDs of the owner's open devices, but for those that mean something else elsewhere; zero:
	 * none. Peers of other network namespaces know it by them (VERBATIM_SOCKET_DIR).
	 */
	_Alignas(64) struct arena_address addresses[ARENA_ADDRESSES];
};

/* A key, and the slot of its owner, in use by a thread of the owner of this arena. */
struct arena_hazard {
	/* 0 or slot << 32 | key; see memory/hazard.h */
	_Atomic uint64_t what;
};

/* One cache line, which one thread writes; but the last ones (memory/hazard.c). */
struct arena_hazard_line {
	_Alignas(64) struct arena_hazard hazards[ARENA_LINE_HAZARDS];
};

struct arena_device {
	char name[32];	   /* empty: not used */
	char address[48];  /* as text */
	uint32_t contexts; /* open ones */
	uint8_t spare[44];
};

/* A UDP address of this process. Tools do not see addresses beyond the table. */
struct arena_port {
	char address[48]; /* as text; empty: not used */
	uint32_t ifindex;
	uint32_t is_group; /* a multicast group that was joined */
	uint8_t spare[8];
};

struct arena_cause {
	_Atomic uint64_t number; /* of this entry, from 1; 0 while it is being written */
	uint64_t time_ns;	 /* CLOCK_REALTIME */
	uint32_t cause;		 /* enum cause */
	uint32_t qpn;		 /* 0: none */
	char text[232];		 /* the sentence with its values, ends in 0 */
};

/*
 * What the UDP ports of a device have sent and received, of which one at a time counts here. Each
 * half has one writer at a time, the thread that holds the lock of that half of the port
 * (udp/udp_port.h), so it is counted by a load and a store. Only tools read it. Bytes are those of
 * the IP packets: IP and UDP header, BTH to ICRC.
 */
struct arena_traffic {
	_Alignas(64) _Atomic uint64_t sent_unicast; /* packets */
	_Atomic uint64_t sent_multicast;
	_Atomic uint64_t sent_bytes;
	_Atomic uint32_t device; /* index of struct arena_device, plus 1; 0: not used yet */
	_Alignas(64) _Atomic uint64_t received_unicast; /* with a correct ICRC */
	_Atomic uint64_t received_multicast;
	_Atomic uint64_t received_bytes;
};

/* The path of a QP, for tools. */
enum arena_path {
	ARENA_PATH_NONE = 0, /* it was not connected yet */
	ARENA_PATH_LOCAL = 1,
	ARENA_PATH_WIRE = 2,
	ARENA_PATH_TCP = 3, /* iWARP */
};

/*
 * The attributes of a QP that peers' requesters read. Its owner writes them under the QP's lock;
 * `word` is stored last (release) and loaded first (acquire).
 */
struct arena_qp {
	_Atomic uint32_t word; /* ARENA_QP_WORD: 0 = no such QP */
	uint32_t dest_qpn;
	uint32_t pd;	 /* number of the PD */
	uint32_t access; /* qp_access_flags: enum ibv_access_flags */
	uint32_t device; /* index of struct arena_device */
	/*
	 * Changes with each QP of this index, and when the QP is reset: before `word` does, so who
	 * loads it after a word of RTS knows which connection that is
	 */
	_Atomic uint32_t generation;
	uint32_t rq_psn;  /* what the first message of its peer carries */
	uint32_t path;	  /* enum arena_path; with `peer` for tools */
	uint8_t peer[16]; /* GID of the other end of a connection */
	/* no field here changes with each request: peers read this cache line for each */
	uint32_t sq_psn; /* what its own first message carries; for tools */
	uint32_t spare32;
	uint64_t spare;
};

#define ARENA_QP_WORD(type, state) (0x80000000u | (uint32_t)(type) << 8 | (uint32_t)(state))
#define ARENA_QP_TYPE(word)	   ((word) >> 8 & 0xff) /* enum ibv_qp_type */
#define ARENA_QP_STATE(word)	   ((word)&0xff)	/* enum ibv_qp_state */

enum arena_key_flags {
	KEY_ON_DEMAND = 1 << 0, /* its memory may be missing: the kernel copies */
	KEY_MW = 1 << 1,	/* a memory window, not an MR */
	KEY_NULL = 1 << 2,	/* the null MR: reads zeroes, swallows writes */
	KEY_MOVING = 1 << 3,	/* its pages migrate now: peers do not copy to or from them */
	KEY_STAYS = 1 << 4,	/* its pages will not migrate: peers do not ask again */
	/* with KEY_NULL: its memory is another process's (memory/imported.h) */
	KEY_IMPORTED = 1 << 5,
	KEY_DYING = 1 << 6, /* revoked, but a hazard may still be on it */
};

/*
 * A memory key. Written by its owner: `key` is stored last (release) when the entry is published,
 * and zeroed first when it is revoked. A copier publishes a hazard on the key and then loads it
 * (acquire): see memory/hazard.h.
 */
struct arena_key {
	_Atomic uint32_t key; /* the whole key, 0 = none */
	uint32_t access;      /* enum ibv_access_flags */
	uint64_t start;	      /* remote address of the first byte (iova; 0 if zero-based) */
	uint64_t length;
	uint64_t addr;		/* the owner's address of the first byte */
	uint32_t pd;		/* number of the PD */
	_Atomic uint32_t flags; /* enum arena_key_flags; MOVING and STAYS change while it lives */
	uint32_t qpn;		/* type 2 windows: the only QP it is good for; else 0 */
	uint32_t dying;		/* with KEY_DYING: the key that it had; the owner's own */
	/* where its first byte would be in the heap (memory/migrate.h); 0: not in the heap */
	_Atomic uint64_t heap;
	/* of its bytes, the first (bits 0-15) and last (16-31) that are not in the heap */
	uint32_t heap_edges;
	uint32_t spare32;
};

/*
 * A key is: 8 random bits | 16 bits of index | 8 random bits. For a type 2 window the consumer
 * chooses the low byte. Indexes are reused in order of release, oldest first.
 */
#define KEY_INDEX(key) ((key) >> 8 & 0xffff)

#define ARENA_PORT_OFFSET    2048
#define ARENA_HAZARD_OFFSET  4096
#define ARENA_DEVICE_OFFSET  8192
#define ARENA_CAUSE_OFFSET   12288
#define ARENA_COUNTER_OFFSET (ARENA_CAUSE_OFFSET + ARENA_CAUSES * 256)
#define ARENA_TRAFFIC_OFFSET                                                                       \
	(ARENA_COUNTER_OFFSET + (ARENA_COUNTERS + ARENA_DEVICES * ARENA_DEVICE_COUNTERS) * 8)
#define ARENA_QP_OFFSET	 (128 * 1024)
#define ARENA_KEY_OFFSET (2 * 1024 * 1024)
#define ARENA_BYTES	 (6 * 1024 * 1024)

static_assert(sizeof(struct arena_header) <= ARENA_PORT_OFFSET, "header");
static_assert(sizeof(struct arena_port) == 64, "port");
static_assert(sizeof(struct arena_hazard_line) == 64, "hazard");
static_assert(sizeof(struct arena_device) == 128, "device");
static_assert(sizeof(struct arena_cause) == 256, "cause");
static_assert(sizeof(struct arena_traffic) == 128, "traffic");
static_assert(ARENA_TRAFFIC_OFFSET + ARENA_TRAFFIC * 128 <= ARENA_QP_OFFSET, "counters");
static_assert(sizeof(struct arena_qp) == 64, "qp");
static_assert(sizeof(struct arena_key) == 64, "key");

static inline struct arena_header *arena_header(void *arena)
{
	return arena;
}

static inline struct arena_hazard_line *arena_hazard_lines(void *arena)
{
	return (void *)((char *)arena + ARENA_HAZARD_OFFSET);
}

/* Entry i of all lines together, below ARENA_HAZARDS. */
static inline struct arena_hazard *arena_hazard(void *arena, unsigned i)
{
	struct arena_hazard_line *line = &arena_hazard_lines(arena)[i / ARENA_LINE_HAZARDS];

	return &line->hazards[i % ARENA_LINE_HAZARDS];
}

static inline struct arena_port *arena_ports(void *arena)
{
	return (void *)((char *)arena + ARENA_PORT_OFFSET);
}

static inline struct arena_device *arena_devices(void *arena)
{
	return (void *)((char *)arena + ARENA_DEVICE_OFFSET);
}

static inline struct arena_cause *arena_causes(void *arena)
{
	return (void *)((char *)arena + ARENA_CAUSE_OFFSET);
}

static inline _Atomic uint64_t *arena_counters(void *arena)
{
	return (void *)((char *)arena + ARENA_COUNTER_OFFSET);
}

/* Where a device's counters begin in arena_counters. */
static inline uint32_t arena_device_counters(uint32_t device)
{
	return ARENA_COUNTERS + device * ARENA_DEVICE_COUNTERS;
}

static inline struct arena_traffic *arena_traffic(void *arena)
{
	return (void *)((char *)arena + ARENA_TRAFFIC_OFFSET);
}

/* The caller is the only thread that counts there now. */
static inline void arena_traffic_add(_Atomic uint64_t *count, uint64_t by)
{
	uint64_t before = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, before + by, memory_order_relaxed);
}

static inline struct arena_qp *arena_qps(void *arena)
{
	return (void *)((char *)arena + ARENA_QP_OFFSET);
}

static inline struct arena_key *arena_keys(void *arena)
{
	return (void *)((char *)arena + ARENA_KEY_OFFSET);
}

#endif
