/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Key - the table of memory keys.
 *
 * In:  entries of regions and windows; (key, address, length, right) of a copy.
 * Out: an address in the memory of the key's owner, or a verdict with its cause.
 *
 * The table lies in the arena (base/arena.h), so peers look keys up as this process does. Lookups
 * take no lock: memory/hazard.h tells how a key is revoked while other threads copy by it.
 * memory/key_revoke.h publishes and revokes keys.
 */
#ifndef MEMORY_KEY_H
#define MEMORY_KEY_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cause.h"

/* While there are fresh indexes, so many released ones wait before the oldest is used again. */
#define KEY_REST 4096

/* Once per adapter: where the table is. `arena` belongs to the caller and outlives all keys. */
int key_table_init(void *arena);
void key_table_reset_after_fork(void);

/*
 * Takes a free index and a new random key for it; the entry stays dead (key 0) until it is
 * published. Returns 0, or -ENOMEM when all 65,536 - 1 are in use (index 0 is never given),
 * -ENODEV when there is no table.
 */
int key_alloc(uint32_t *index, uint32_t *key);
struct arena_key *key_entry(uint32_t index);
void key_free(uint32_t index);
/* Entries from this index on were never used. */
uint32_t key_count(void);

/* The verdict on a key. The requester maps it to LOC_PROT_ERR, the responder to REM_ACCESS_ERR. */
enum key_verdict {
	KEY_OK = 0,
	KEY_BAD_UNKNOWN,
	KEY_BAD_PD,
	KEY_BAD_RANGE,
	KEY_BAD_ACCESS,
	KEY_BAD_QP,
};

/*
 * Checks `key` against its entry in a table, own or a peer's: alive, of PD `pd`,
 * good for [addr, addr + length), with all bits of `access` (enum ibv_access_flags; 0 = local
 * read), and of QP `qpn` if bound to one. On KEY_OK `*host` is the owner's address and `*flags`
 * enum arena_key_flags. The caller has published the key (hazard_set) and copies before
 * hazard_clear. A copy of no bytes needs no key, so callers do not check one.
 */
enum key_verdict key_check_entry(const struct arena_key *entry, uint32_t key, uint32_t pd,
				 uint32_t qpn, uint64_t addr, uint64_t length, uint32_t access,
				 uint64_t *host, uint32_t *flags);

/* The same for a table of ARENA_KEYS entries that is mapped as a whole. */
static inline enum key_verdict key_check(const struct arena_key *keys, uint32_t key, uint32_t pd,
					 uint32_t qpn, uint64_t addr, uint64_t length,
					 uint32_t access, uint64_t *host, uint32_t *flags)
{
	return key_check_entry(&keys[KEY_INDEX(key)], key, pd, qpn, addr, length, access, host,
			       flags);
}

/* The cause that goes with a verdict on an L_Key, an R_Key. */
enum cause key_cause_local(enum key_verdict verdict);
enum cause key_cause_remote(enum key_verdict verdict);

/* This process's own table. */
struct arena_key *key_table(void);

/* Differs in the child of a fork: keys of an earlier epoch are the parent's. */
uint32_t key_epoch(void);

#endif
