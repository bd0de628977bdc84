/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/page.h"
#include "base/uncancelled.h"
#include "memory/bounce.h"
#include "memory/hazard.h"
#include "memory/imported.h"
#include "memory/key.h"
#include "memory/migrate.h"
#include "memory/oneself.h"
#include "memory/pin.h"

static uint32_t own_slot;

void memory_init(uint32_t slot)
{
	own_slot = slot;
	oneself_init();
	bounce_init();
}

void memory_copy_ordered(void *to, const void *from, size_t bytes)
{
	uintptr_t end = (uintptr_t)to + bytes;
	uintptr_t last = bytes ? (end - 1) & ~7ul : end;
	size_t body = last > (uintptr_t)to ? last - (uintptr_t)to : 0;
	const char *rest = (const char *)from + body;
	uint64_t word;

	if (body)
		memcpy(to, from, body);
	atomic_thread_fence(memory_order_release); /* LAST: the tail is stored after the body */
	if (end - last == 8 && last >= (uintptr_t)to) {
		memcpy(&word, rest, 8);
		__atomic_store_n((uint64_t *)last, word, __ATOMIC_RELEASE);
		return;
	}
	for (size_t i = 0; i < bytes - body; i++)
		__atomic_store_n((char *)to + body + i, rest[i], __ATOMIC_RELEASE);
}

/*
 * Splits the target so that the last word is a piece: the kernel finishes one piece before the
 * next.
 */
static void order_target(struct iovec target[2], uint64_t to, size_t bytes)
{
	uint64_t last = (to + bytes - 1) & ~7ull;
	size_t body = last > to ? last - to : 0;

	target[0] = (struct iovec){ (void *)(uintptr_t)to, body };
	target[1] = (struct iovec){ (void *)(uintptr_t)(to + body), bytes - body };
}

static int copy_by_kernel(uint64_t to, uint64_t from, size_t bytes)
{
	struct iovec source = { (void *)(uintptr_t)from, bytes };
	struct iovec target[2];
	ssize_t n;

	if (!bytes)
		return 0;
	order_target(target, to, bytes);
	n = oneself_read(target, 2, &source, 1);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		/* seccomp forbids the call: then a bad address raises a signal */
		memory_copy_ordered((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
		atomic_thread_fence(memory_order_acquire); /* READ-2: the call is a barrier, too */
		return 0;
	}
	return n == (ssize_t)bytes ? 0 : -EFAULT;
}

/*
 * From pieces. The kernel looks up the pages at `to` in advance, so the userfaultfd guard
 * does not stop it.
 */
static int copy_pieces_by_kernel(uint64_t to, const struct iovec *from, int pieces, size_t bytes)
{
	struct iovec target[2];
	ssize_t n;

	if (!bytes)
		return 0;
	order_target(target, to, bytes);
	n = oneself_write(from, (unsigned)pieces, target, 2);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		for (int i = 0; i < pieces; to += from[i++].iov_len)
			memory_copy_ordered((void *)(uintptr_t)to, from[i].iov_base,
					    from[i].iov_len);
		return 0;
	}
	return n == (ssize_t)bytes ? 0 : -EFAULT;
}

int memory_copy(uint64_t to, uint64_t from, size_t bytes)
{
	return copy_by_kernel(to, from, bytes);
}

int memory_copy_to(uint64_t to, const void *from, size_t bytes)
{
	int r = bytes && bytes <= BOUNCE_BYTES ? bounce_to(to, from, bytes) : -EAGAIN;

	if (r != -EAGAIN)
		return r;
	return copy_by_kernel(to, (uintptr_t)from, bytes);
}

int memory_copy_from(void *to, uint64_t from, size_t bytes)
{
	int r = bytes && bytes <= BOUNCE_BYTES ? bounce_from(to, from, bytes) : -EAGAIN;

	if (r != -EAGAIN)
		return r;
	return copy_by_kernel((uintptr_t)to, from, bytes);
}

/* MADV_POPULATE_WRITE (Linux 5.14) waits for pages under a userfaultfd; it takes longer. */
static bool populate(uint64_t address)
{
	uintptr_t page = (uintptr_t)address & ~(uintptr_t)(page_bytes() - 1);

	return madvise((void *)page, page_bytes(), MADV_POPULATE_WRITE) == 0;
}

static bool kernel_populates(void)
{
	static uint32_t any_word;

	return populate((uintptr_t)&any_word);
}

#define TRIES_WHILE_PAGES_MOVE 50 /* milliseconds: a slice takes less */

/*
 * A futex call fails at once on a page that a userfaultfd protects, as it does while the page
 * migrates: that is no error. Kernels that cannot populate are asked again until it has moved.
 */
bool memory_is_writable(uint64_t address)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };
	bool writable = oneself_write_nothing(address) || populate(address);

	if (writable || kernel_populates())
		return writable;

	UNCANCELLED; /* nanosleep is a cancellation point, and callers hold locks */

	for (int i = 0; !writable && i < TRIES_WHILE_PAGES_MOVE; i++) {
		nanosleep(&pause, NULL);
		writable = oneself_write_nothing(address);
	}
	return writable;
}

bool memory_probe(const struct iovec *iov, int count)
{
	for (int i = 0; i < count; i++) {
		uintptr_t start = (uintptr_t)iov[i].iov_base;

		if (pin_probe(start, start + iov[i].iov_len))
			return false;
	}
	return true;
}

enum cause memory_check(const struct ibv_sge *sge, uint32_t count, uint32_t pd, uint32_t access)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t host;
		uint32_t flags;
		enum key_verdict verdict;

		if (!sge[i].length)
			continue;
		verdict = key_check(key_table(), sge[i].lkey, pd, 0, sge[i].addr, sge[i].length,
				    access, &host, &flags);
		if (verdict != KEY_OK)
			return key_cause_local(verdict);
	}
	return CAUSE_NONE;
}

/* This thread's copies to the program's memory are checked: memory_check_copies. */
static _Thread_local bool checks_copies __attribute__((tls_model("initial-exec")));

void memory_check_copies(void)
{
	checks_copies = true;
}

/*
 * Has the kernel store, which finds out whether the memory is there. Where it cannot (no bounce
 * buffer is free; pages migrate), this thread stores.
 */
static enum cause store_piece(uint64_t to, const char *from, size_t bytes)
{
	int r = bounce_to(to, from, bytes);
	uint64_t last = to + bytes - 1;

	if (r == 0)
		return CAUSE_NONE;
	if (r == -EFAULT && !(memory_is_writable(to & ~3ull) && memory_is_writable(last & ~3ull)))
		return CAUSE_MEMORY_FAULT_LOCAL;
	memory_copy_ordered((void *)(uintptr_t)to, from, bytes);
	return CAUSE_NONE;
}

static enum cause store_checked(uint64_t to, const char *from, size_t bytes)
{
	enum cause cause = CAUSE_NONE;

	for (size_t n; bytes && cause == CAUSE_NONE; to += n, from += n, bytes -= n) {
		n = bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;
		cause = store_piece(to, from, n);
	}
	return cause;
}

/* Copies between `flat` and an SGE, from `at` bytes into it. */
static enum cause copy_piece(const struct ibv_sge *sge, uint32_t pd, uint32_t access, bool checked,
			     size_t at, void *flat, size_t bytes)
{
	struct arena_hazard *hazard = hazard_set(own_slot, sge->lkey);
	enum cause cause = CAUSE_NONE;
	enum key_verdict verdict;
	uint64_t host;
	uint32_t flags;

	verdict = key_check(key_table(), sge->lkey, pd, 0, sge->addr + at, bytes, access, &host,
			    &flags);
	if (verdict != KEY_OK)
		cause = key_cause_local(verdict);
	else if (flags & KEY_IMPORTED) {
		if (imported_ops->copy(sge->lkey, sge->addr + at, flat, bytes, access != 0))
			cause = CAUSE_MEMORY_FAULT_LOCAL;
	} else if (flags & KEY_NULL)
		access ? (void)0 : (void)memset(flat, 0, bytes);
	else if (flags & KEY_ON_DEMAND) {
		if (access ? memory_copy_to(host, flat, bytes)
			   : memory_copy_from(flat, host, bytes))
			cause = CAUSE_MEMORY_FAULT_LOCAL;
	} else if (checked)
		cause = store_checked(host, flat, bytes);
	else if (access)
		memory_copy_ordered((void *)(uintptr_t)host, flat, bytes);
	else
		memcpy(flat, (void *)(uintptr_t)host, bytes);
	hazard_clear(hazard);
	return cause;
}

/* The SGE's part from `offset` on, `bytes` at most; reduces *offset where that is beyond it. */
static size_t part_of(const struct ibv_sge *sge, size_t *offset, size_t bytes)
{
	size_t n = sge->length;

	if (*offset >= n) {
		*offset -= n;
		return 0;
	}
	n -= *offset;
	return n < bytes ? n : bytes;
}

static enum cause copy_list(const struct ibv_sge *sge, uint32_t count, uint32_t pd, uint32_t access,
			    bool checked, size_t offset, char *flat, size_t bytes)
{
	for (uint32_t i = 0; i < count && bytes; i++) {
		size_t n = part_of(&sge[i], &offset, bytes);
		enum cause cause;

		if (!n)
			continue;
		cause = copy_piece(&sge[i], pd, access, checked, offset, flat, n);
		if (cause != CAUSE_NONE)
			return cause;
		offset = 0;
		flat += n;
		bytes -= n;
	}
	return CAUSE_NONE;
}

enum cause memory_gather(const struct ibv_sge *sge, uint32_t count, uint32_t pd, size_t offset,
			 void *to, size_t bytes)
{
	return copy_list(sge, count, pd, 0, false, offset, to, bytes);
}

enum cause memory_scatter(const struct ibv_sge *sge, uint32_t count, uint32_t pd, size_t offset,
			  const void *from, size_t bytes)
{
	return copy_list(sge, count, pd, IBV_ACCESS_LOCAL_WRITE, false, offset, (char *)from,
			 bytes);
}

enum cause memory_scatter_datagram(const struct ibv_sge *sge, uint32_t count, uint32_t pd,
				   size_t offset, const void *from, size_t bytes)
{
	return copy_list(sge, count, pd, IBV_ACCESS_LOCAL_WRITE, checks_copies, offset,
			 (char *)from, bytes);
}

bool memory_may_wait(const struct ibv_sge *sge, uint32_t count)
{
	uint32_t flags = 0;

	for (uint32_t i = 0; i < count; i++)
		flags |= atomic_load_explicit(&key_table()[KEY_INDEX(sge[i].lkey)].flags,
					      memory_order_relaxed);
	return flags & (KEY_ON_DEMAND | KEY_IMPORTED);
}

/* False: the key is bad, and *cause says so, or it is the null MR's. */
static bool check_part(const struct ibv_sge *sge, uint32_t pd, uint32_t access, size_t offset,
		       size_t bytes, uint64_t *host, enum cause *cause)
{
	uint32_t flags;
	enum key_verdict verdict = key_check(key_table(), sge->lkey, pd, 0, sge->addr + offset,
					     bytes, access, host, &flags);

	*cause = verdict == KEY_OK ? CAUSE_NONE : key_cause_local(verdict);
	return verdict == KEY_OK && !(flags & KEY_NULL);
}

int memory_pieces(const struct ibv_sge *sge, uint32_t count, uint32_t pd, uint32_t access,
		  size_t offset, size_t *bytes, struct iovec *iov, int max,
		  struct arena_hazard **hazard, enum cause *cause)
{
	uint32_t lkey = 0;
	size_t done = 0;
	int pieces = 0;

	*cause = CAUSE_NONE;
	for (uint32_t i = 0; i < count && done < *bytes && pieces < max; i++) {
		size_t n = part_of(&sge[i], &offset, *bytes - done);
		uint64_t host;

		if (!n)
			continue;
		if (!pieces) {
			lkey = sge[i].lkey;
			*hazard = hazard_set(own_slot, lkey);
		} else if (sge[i].lkey != lkey) {
			break;
		}
		if (!check_part(&sge[i], pd, access, offset, n, &host, cause)) {
			hazard_clear(*hazard);
			return 0;
		}
		iov[pieces++] = (struct iovec){ (void *)(uintptr_t)host, n };
		offset = 0;
		done += n;
	}
	*bytes = done;
	return pieces;
}

bool memory_check_part(const struct ibv_sge *sge, uint32_t count, uint32_t pd, uint32_t access,
		       size_t offset, size_t bytes, enum cause *cause)
{
	*cause = CAUSE_NONE;
	for (uint32_t i = 0; i < count && bytes; i++) {
		size_t n = part_of(&sge[i], &offset, bytes);
		uint64_t host;

		if (!n)
			continue;
		if (!check_part(&sge[i], pd, access, offset, n, &host, cause))
			return false;
		offset = 0;
		bytes -= n;
	}
	return true;
}

static enum cause check_remote(struct memory_peer peer, uint32_t rkey, uint64_t address,
			       uint32_t check, uint32_t access, uint64_t *host, uint32_t *flags)
{
	enum key_verdict verdict = key_check(key_table(), rkey, peer.pd, peer.qpn, address, check,
					     access, host, flags);

	return verdict == KEY_OK ? CAUSE_NONE : key_cause_remote(verdict);
}

static void copy_pieces_to(char *to, const struct iovec *from, int pieces)
{
	for (int i = 0; i < pieces - 1; to += from[i++].iov_len)
		memcpy(to, from[i].iov_base, from[i].iov_len);
	memory_copy_ordered(to, from[pieces - 1].iov_base, from[pieces - 1].iov_len);
}

/*
 * The bytes in our mapping of the heap; NULL: they are not there, or about to move. A region that
 * could be there is requested to move, if so many bytes more make that pay.
 */
static char *find_in_heap(uint32_t key, uint64_t host, uint32_t flags, size_t bytes)
{
	const struct arena_key *entry = &key_table()[KEY_INDEX(key)];
	char *mapped = flags & KEY_MOVING ? NULL : migrate_map(entry, host, bytes);

	if (!mapped && !(flags & (KEY_STAYS | KEY_ON_DEMAND | KEY_MOVING)) && !entry->heap)
		migrate_want(key, entry->length, bytes);
	return mapped;
}

/* Stores what a peer writes to a region of ours. 0 or -EFAULT. */
static int store_pieces(struct arena_hazard *hazard, uint32_t key, uint64_t address, uint64_t host,
			uint32_t flags, const struct iovec *from, int pieces, uint32_t bytes)
{
	char *mapped;
	int error = 0;

	if (flags & KEY_IMPORTED) {
		for (int i = 0; i < pieces && !error; address += from[i++].iov_len)
			error = imported_ops->copy(key, address, from[i].iov_base, from[i].iov_len,
						   true);
		return error;
	}
	if (flags & KEY_NULL || !bytes)
		return 0;
	mapped = find_in_heap(key, host, flags, bytes);
	if (mapped) {
		copy_pieces_to(mapped, from, pieces);
		return 0;
	}
	/* not while pages move: the guard does not stop a copy to pages looked up in advance */
	if (pieces > 1 && !(flags & KEY_MOVING))
		return copy_pieces_by_kernel(host, from, pieces, bytes);
	hazard_leave_heap(hazard);
	for (int i = 0; i < pieces && !error; host += from[i++].iov_len)
		error = memory_copy_to(host, from[i].iov_base, from[i].iov_len);
	return error;
}

/* Loads what a peer reads of a region of ours. 0 or -EFAULT. */
static int fetch(struct arena_hazard *hazard, uint32_t key, uint64_t address, uint64_t host,
		 uint32_t flags, void *to, size_t bytes)
{
	const char *mapped;

	if (flags & KEY_IMPORTED)
		return imported_ops->copy(key, address, to, bytes, false);
	if (flags & KEY_NULL || !bytes) {
		memset(to, 0, bytes);
		return 0;
	}
	mapped = find_in_heap(key, host, flags, bytes);
	if (mapped) {
		memcpy(to, mapped, bytes);
		return 0;
	}
	hazard_leave_heap(hazard);
	return memory_copy_from(to, host, bytes);
}

enum cause memory_write_remote(struct memory_peer peer, uint32_t rkey, uint64_t address,
			       uint32_t check, const void *from, uint32_t bytes)
{
	struct iovec piece = { (void *)from, bytes };

	return memory_write_remote_pieces(peer, rkey, address, check, &piece, 1, bytes);
}

enum cause memory_write_remote_pieces(struct memory_peer peer, uint32_t rkey, uint64_t address,
				      uint32_t check, const struct iovec *from, int pieces,
				      uint32_t bytes)
{
	struct arena_hazard *hazard = hazard_set_in_heap(own_slot, rkey);
	uint64_t host;
	uint32_t flags;
	enum cause cause =
		check_remote(peer, rkey, address, check, IBV_ACCESS_REMOTE_WRITE, &host, &flags);

	if (cause == CAUSE_NONE &&
	    store_pieces(hazard, rkey, address, host, flags, from, pieces, bytes))
		cause = CAUSE_MEMORY_FAULT_REMOTE;
	hazard_clear(hazard);
	return cause;
}

enum cause memory_read_remote(struct memory_peer peer, uint32_t rkey, uint64_t address, void *to,
			      uint32_t bytes)
{
	struct arena_hazard *hazard = hazard_set_in_heap(own_slot, rkey);
	uint64_t host;
	uint32_t flags;
	enum cause cause =
		check_remote(peer, rkey, address, bytes, IBV_ACCESS_REMOTE_READ, &host, &flags);

	if (cause == CAUSE_NONE && fetch(hazard, rkey, address, host, flags, to, bytes))
		cause = CAUSE_MEMORY_FAULT_REMOTE;
	hazard_clear(hazard);
	return cause;
}

enum cause memory_flush_remote(struct memory_peer peer, uint32_t rkey, uint64_t address,
			       uint32_t bytes, uint32_t access, bool whole)
{
	struct arena_hazard *hazard = hazard_set(own_slot, rkey);
	const struct arena_key *entry = &key_table()[KEY_INDEX(rkey)];
	uint64_t host;
	uint32_t flags;
	enum cause cause;

	/* who has a dead entry may be filling it */
	if (whole && atomic_load_explicit(&entry->key, memory_order_acquire) == rkey) {
		address = entry->start;
		bytes = 0;
	}
	cause = check_remote(peer, rkey, address, bytes, access, &host, &flags);
	hazard_clear(hazard);
	/* caches are coherent: only the order of stores can hide a write */
	atomic_thread_fence(memory_order_seq_cst);
	return cause;
}

uint32_t memory_slot(void)
{
	return own_slot;
}
