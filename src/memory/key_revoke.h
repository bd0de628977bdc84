/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Key revoke - publishes keys of this process, and revokes them from all threads that copy by them.
 *
 * In:  entries that regions and windows have filled (memory/key.h).
 * Out: live keys; dead keys, by which no thread of any process copies (memory/hazard.h).
 *
 * Order of calls: key_alloc, fill key_entry, key_publish; key_revoke, then refill and publish again
 * or key_free. A caller that must not block uses the halves of key_revoke: key_zero, then
 * key_hazard_owner until that is 0. The key's object ensures that one thread at a time revokes a
 * key.
 */
#ifndef MEMORY_KEY_REVOKE_H
#define MEMORY_KEY_REVOKE_H

#include <stdint.h>

void key_publish(uint32_t index, uint32_t key);
/* Zeroes the entry's key: later lookups do not find it. Does nothing if the entry is dead. */
void key_zero(uint32_t index);
/*
 * After key_zero: the PID of a process that may still copy by the key. 0: none; only then may the
 * entry be filled anew or freed. Never blocks.
 */
uint32_t key_hazard_owner(uint32_t index);
/*
 * Both, with a wait between. 0, or -EBUSY with a cause reported: a copy has not ended after
 * HAZARD_WAIT_MS (its process may be stopped). The key is dead then; a later call waits again.
 */
int key_revoke(uint32_t index);
/* After -EBUSY: publishes the entry again, under the key it had. */
void key_restore(uint32_t index);

#endif
