/*
 * Key - the table of memory keys.
 *
 * In:  what regions and windows put into it; (key, address, length, right) from whoever moves data.
 * Out: an address in the memory of the key's owner, or a verdict with its cause.
 *
 * The table lies in the arena (base/arena.h), so a peer finds a key there as we do. Lookups take no
 * lock: see memory/hazard.h for how a key is revoked under the feet of those who copy.
 *
 * Order of calls: key_alloc, fill key_entry, key_publish; key_revoke, then refill and publish again
 * or key_free. Who must not block has key_revoke in two halves: key_zero, then key_hazard_owner until
 * that is 0. One thread at a time revokes a key; the key's object sees to that.
 */
#ifndef MEMORY_KEY_H
#define MEMORY_KEY_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cause.h"

/* Once per adapter: where the table is. `arena` belongs to the caller and outlives all keys. */
int key_table_init(void *arena);
void key_table_reset_after_fork(void);

/*
 * Takes a free index and a new random key for it; the entry stays dead (key 0) until
 * key_publish. Returns 0, or -ENOMEM when all 65,536 - 1 are in use (index 0 is never given),
 * -ENODEV when there is no table.
 */
int key_alloc(uint32_t *index, uint32_t *key);
struct arena_key *key_entry(uint32_t index);
void key_publish(uint32_t index, uint32_t key);
/* Zeroes the entry's key: nobody who looks from now on finds it. Nothing happens if it is dead. */
void key_zero(uint32_t index);
/*
 * The PID of a process that may still copy to or from what the key named, which was alive before
 * key_zero. 0: none; only then may the entry be filled anew or freed. Never blocks.
 */
uint32_t key_hazard_owner(uint32_t index);
/*
 * Both, with a wait between. 0, or -EBUSY, with a cause reported, when a copy has not ended after
 * HAZARD_WAIT_MS: a stopped process may go on with it. The key is dead then; a later call goes on
 * waiting.
 */
int key_revoke(uint32_t index);
/* After -EBUSY: as it was before, under the key it had. */
void key_restore(uint32_t index);
void key_free(uint32_t index);
/* All entries from this index on were never used. */
uint32_t key_count(void);

/* What a check of a key can end in. The front maps it to LOC_PROT_ERR, REM_ACCESS_ERR, ... */
enum key_verdict {
	KEY_OK = 0,
	KEY_BAD_UNKNOWN,
	KEY_BAD_PD,
	KEY_BAD_RANGE,
	KEY_BAD_ACCESS,
	KEY_BAD_QP,
};

/*
 * Checks `key` in the table at `keys` (own or a peer's, ARENA_KEYS entries): alive, of PD `pd`,
 * good for [addr, addr + length), with all bits of `access` (enum ibv_access_flags; 0 = local
 * read), and of QP `qpn` if bound to one. On KEY_OK `*host` is the owner's address and `*flags`
 * enum arena_key_flags. The caller has published the key (hazard_set) and copies before hazard_clear.
 * A zero length is the caller's business: it needs no key.
 */
enum key_verdict key_check(struct arena_key *keys, uint32_t key, uint32_t pd, uint32_t qpn,
			   uint64_t addr, uint64_t length, uint32_t access, uint64_t *host,
			   uint32_t *flags);

/* The cause that goes with a verdict on an L_Key, an R_Key. */
enum cause key_cause_local(enum key_verdict verdict);
enum cause key_cause_remote(enum key_verdict verdict);

/* This process's own table. */
struct arena_key *key_table(void);

/* Counts the tables of this process: it changes with each fork that a key may have seen. */
uint32_t key_epoch(void);

#endif
