/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/key.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/check.h"
#include "base/compat.h"
#include "base/lock.h"

#define INDEX_MASK (ARENA_KEYS - 1)

static_assert((ARENA_KEYS & INDEX_MASK) == 0, "the FIFO wraps by a mask");

static struct arena_key *table;
static uint32_t epoch;

static struct lock lock = LOCK_INITIALIZER;
/*
 * Released indexes, oldest first, are fifo[fifo_head..fifo_tail); fresh..ARENA_KEYS were never
 * used.
 */
static uint16_t fifo[ARENA_KEYS] GUARDED_BY(lock);
static uint32_t fifo_head GUARDED_BY(lock), fifo_tail GUARDED_BY(lock);
static uint32_t fresh GUARDED_BY(lock) = 1; /* index 0 is not used, so that no key is 0 */
static uint16_t last_chance[ARENA_KEYS] GUARDED_BY(lock); /* random bits of an index's last key */

static uint16_t chances[128] GUARDED_BY(lock);
static unsigned chances_left GUARDED_BY(lock);

int key_table_init(void *arena)
{
	table = arena_keys(arena);
	return 0;
}

void key_table_reset_after_fork(void)
{
	lock_acquire_in_child(&lock);
	table = NULL;
	fifo_head = fifo_tail = 0;
	fresh = 1;
	chances_left = 0;
	epoch++;
	lock_release(&lock);
}

uint32_t key_epoch(void)
{
	return epoch;
}

struct arena_key *key_table(void)
{
	return table;
}

struct arena_key *key_entry(uint32_t index)
{
	return &table[index];
}

/* Without getrandom: keys only differ from one another. */
static void refill_poorly(void) REQUIRES(lock)
{
	struct timespec now;
	uint64_t mix;

	clock_gettime(CLOCK_MONOTONIC, &now);
	mix = now.tv_sec * UINT64_C(1000000007) + now.tv_nsec;
	for (unsigned i = 0; i < sizeof(chances) / sizeof(chances[0]); i++) {
		mix = mix * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		chances[i] = mix >> 48;
	}
}

static uint16_t draw(void) REQUIRES(lock)
{
	if (chances_left == 0) {
		int saved = errno;

		if (getrandom(chances, sizeof(chances), GRND_NONBLOCK) != sizeof(chances))
			refill_poorly();
		errno = saved;
		chances_left = sizeof(chances) / sizeof(chances[0]);
	}
	return chances[--chances_left];
}

#ifdef VERBATIM_CHECK
#define FREE_INDEXES 8 /* a check looks at the oldest ones; now and then at all */

/*
 * The table of keys:
 * - indexes from `fresh` on were never used, and index 0 never is;
 * - a free index is one that was used, and its entry is dead;
 * - no index is free twice.
 */
static void key_table_check(void) REQUIRES(lock)
{
	static uint8_t seen[ARENA_KEYS / 8] GUARDED_BY(lock);
	uint32_t count = fifo_tail - fifo_head, most = count < FREE_INDEXES ? count : FREE_INDEXES;

	INVARIANT(fresh >= 1 && fresh <= ARENA_KEYS && count < fresh, "%u free, fresh from %u on",
		  count, fresh);
	if (check_sometimes(256))
		most = count;
	memset(seen, 0, sizeof(seen));
	for (uint32_t i = fifo_head; table && i != fifo_head + most; i++) {
		uint32_t index = fifo[i & INDEX_MASK];

		INVARIANT(index >= 1 && index < fresh && !atomic_load(&table[index].key),
			  "free index %u, fresh from %u on, key 0x%08x", index, fresh,
			  atomic_load(&table[index].key));
		INVARIANT(!(seen[index / 8] >> index % 8 & 1), "index %u is free twice", index);
		seen[index / 8] |= (uint8_t)(1u << index % 8);
	}
}
#endif

int key_alloc(uint32_t *index, uint32_t *key)
{
	uint32_t rested, i;
	uint16_t chance;

	if (!table)
		return -ENODEV;
	lock_acquire(&lock);
	rested = fifo_tail - fifo_head;
	if (fresh < ARENA_KEYS && rested < KEY_REST) {
		i = fresh++;
	} else if (rested > 0) {
		i = fifo[fifo_head++ & INDEX_MASK];
	} else {
		lock_release(&lock);
		return -ENOMEM;
	}
	do
		chance = draw();
	while (chance == last_chance[i]);
	last_chance[i] = chance;
	CHECK(key_table_check());
	lock_release(&lock);

	*index = i;
	*key = (uint32_t)(chance >> 8) << 24 | i << 8 | (chance & 0xff);
	return 0;
}

void key_free(uint32_t index)
{
	lock_acquire(&lock);
	fifo[fifo_tail++ & INDEX_MASK] = index;
	CHECK(key_table_check());
	lock_release(&lock);
}

uint32_t key_count(void)
{
	uint32_t count;

	lock_acquire(&lock);
	count = fresh;
	lock_release(&lock);
	return count;
}

#define REMOTE_RIGHTS                                                                              \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |             \
	 COMPAT_ACCESS_FLUSH_GLOBAL | COMPAT_ACCESS_FLUSH_PERSISTENT)

enum key_verdict key_check_entry(const struct arena_key *entry, uint32_t key, uint32_t pd,
				 uint32_t qpn, uint64_t addr, uint64_t length, uint32_t access,
				 uint64_t *host, uint32_t *flags)
{
	uint64_t offset;

	/*
	 * Barrier KEY, and step 2 of HAZARD: as the key is alive, its entry stays until
	 * hazard_clear.
	 */
	if (key == 0 || atomic_load_explicit(&entry->key, memory_order_acquire) != key)
		return KEY_BAD_UNKNOWN;
	if ((atomic_load_explicit(&entry->flags, memory_order_relaxed) & KEY_MW) &&
	    !(access & REMOTE_RIGHTS))
		return KEY_BAD_UNKNOWN; /* a window has no L_Key */
	if (entry->pd != pd)
		return KEY_BAD_PD;
	if (entry->qpn && entry->qpn != qpn)
		return KEY_BAD_QP;
	if ((entry->access & access) != access)
		return KEY_BAD_ACCESS;
	offset = addr - entry->start;
	if (addr < entry->start || offset > entry->length || length > entry->length - offset)
		return KEY_BAD_RANGE;
	*host = entry->addr + offset;
	/* Barrier MOVING: the heap offset is loaded after MOVING was found clear */
	*flags = atomic_load_explicit(&entry->flags, memory_order_acquire);
	return KEY_OK;
}

enum cause key_cause_local(enum key_verdict verdict)
{
	switch (verdict) {
	case KEY_OK:
		return CAUSE_NONE;
	case KEY_BAD_PD:
		return CAUSE_LKEY_PD;
	case KEY_BAD_RANGE:
		return CAUSE_LKEY_RANGE;
	case KEY_BAD_ACCESS:
		return CAUSE_LKEY_ACCESS;
	case KEY_BAD_UNKNOWN:
	case KEY_BAD_QP:
		break;
	}
	return CAUSE_LKEY_UNKNOWN;
}

enum cause key_cause_remote(enum key_verdict verdict)
{
	switch (verdict) {
	case KEY_OK:
		return CAUSE_NONE;
	case KEY_BAD_PD:
		return CAUSE_RKEY_PD;
	case KEY_BAD_RANGE:
		return CAUSE_RKEY_RANGE;
	case KEY_BAD_ACCESS:
		return CAUSE_RKEY_ACCESS;
	case KEY_BAD_QP:
		return CAUSE_RKEY_QP;
	case KEY_BAD_UNKNOWN:
		break;
	}
	return CAUSE_RKEY_UNKNOWN;
}
