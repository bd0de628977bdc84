/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Key - the table of memory keys.
 *
 * In:  entries of regions and windows; (key, address, length, right) of a copy.
 * Out: an address in the memory of the key's owner, or a verdict with its cause.
 *
 * The table lies in the arena (base/arena.h), so a peer finds a key there as we do. Lookups take no
 * lock: memory/hazard.h tells how a key is revoked while other threads copy by it.
 *
 * Order of calls: key_alloc, fill key_entry, key_publish; key_revoke, then refill and publish again
 * or key_free. A caller that must not block uses the halves of key_revoke: key_zero, then key_hazard_owner
 * until that is 0. The key's object sees to it that one thread at a time revokes a key.
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
/* Zeroes the entry's key: later lookups do not find it. Does nothing if the entry is dead. */
void key_zero(uint32_t index);
/*
 * After key_zero: the PID of a process that may still copy by the key. 0: none; only then may the entry be
 * filled anew or freed. Never blocks.
 */
uint32_t key_hazard_owner(uint32_t index);
/*
 * Both, with a wait between. 0, or -EBUSY with a cause reported: a copy has not ended after HAZARD_WAIT_MS,
 * and a stopped process may go on with it. The key is dead then; a later call waits again.
 */
int key_revoke(uint32_t index);
/* After -EBUSY: publishes the entry again, under the key it had. */
void key_restore(uint32_t index);
void key_free(uint32_t index);
/* Entries from this index on were never used. */
uint32_t key_count(void);

/* The verdict on a key. Requester and responder make LOC_PROT_ERR, REM_ACCESS_ERR, ... of it. */
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
 * A copy of no bytes needs no key, so callers do not check one.
 */
enum key_verdict key_check(struct arena_key *keys, uint32_t key, uint32_t pd, uint32_t qpn,
			   uint64_t addr, uint64_t length, uint32_t access, uint64_t *host,
			   uint32_t *flags);

/* The cause that goes with a verdict on an L_Key, an R_Key. */
enum cause key_cause_local(enum key_verdict verdict);
enum cause key_cause_remote(enum key_verdict verdict);

/* This process's own table. */
struct arena_key *key_table(void);

/* Differs in the child of a fork: keys of an earlier epoch are the parent's. */
uint32_t key_epoch(void);

#endif
