/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/key_revoke.h"

#include <errno.h>

#include "base/check.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/migrate.h"

#ifdef VERBATIM_CHECK
/* A published key: it has its index, and its entry is not that of a dying key. */
static void check_published(uint32_t index, uint32_t key)
{
	INVARIANT(KEY_INDEX(key) == index && !(atomic_load(&key_entry(index)->flags) & KEY_DYING),
		  "index %u, key 0x%08x, flags 0x%x", index, key,
		  atomic_load(&key_entry(index)->flags));
}
#endif

/* Barrier KEY: a reader that loads the key with acquire (key_check) sees the filled entry. */
static void publish(uint32_t index, uint32_t key) REQUIRES(range_lock)
{
	struct arena_key *entry = key_entry(index);

	migrate_on_publish(entry);
	CHECK(check_published(index, key));
	atomic_store_explicit(&entry->key, key, memory_order_release);
}

void key_publish(uint32_t index, uint32_t key)
{
	lock_acquire(&range_lock);
	publish(index, key);
	lock_release(&range_lock);
}

void key_zero(uint32_t index)
{
	struct arena_key *entry = key_entry(index);
	uint32_t key;

	lock_acquire(&range_lock);
	key = atomic_exchange(&entry->key, 0);
	if (key) {
		entry->dying = key;
		atomic_fetch_or(&entry->flags, KEY_DYING);
	}
	lock_release(&range_lock);
	if (key)
		hazard_barrier(); /* HAZARD */
}

uint32_t key_hazard_owner(uint32_t index)
{
	struct arena_key *entry = key_entry(index);
	uint32_t pid;

	if (!(atomic_load(&entry->flags) & KEY_DYING))
		return 0;
	pid = hazard_owner(entry->dying);
	if (pid)
		return pid;
	migrate_on_revoke(entry); /* not before: a copier may be using its pages in the heap */
	return 0;
}

int key_revoke(uint32_t index)
{
	struct hazard_wait wait = { 0 };
	uint32_t pid;

	key_zero(index);
	while ((pid = key_hazard_owner(index)) != 0)
		if (!hazard_wait(&wait)) {
			cause_report(CAUSE_COPY_UNFINISHED, 0, "process %u, key 0x%08x", pid,
				     key_entry(index)->dying);
			return -EBUSY;
		}
	return 0;
}

/*
 * A copier may still use the key. So range_drain, which looks under the lock, finds it either dying
 * or alive.
 */
void key_restore(uint32_t index)
{
	struct arena_key *entry = key_entry(index);

	lock_acquire(&range_lock);
	atomic_fetch_and(&entry->flags, ~(uint32_t)KEY_DYING);
	publish(index, entry->dying);
	lock_release(&range_lock);
}
