/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory - copies payload between SGE lists and flat memory, and checks L_Keys.
 *
 * Any thread; takes no locks (memory/hazard.h protects the memory of a copy). Memory of ordinary
 * regions was populated at registration and is copied with plain stores. Memory of on-demand
 * regions, and any memory that a peer names, is copied by the kernel (process_vm_readv and
 * process_vm_writev on oneself), so that a bad address is an error and not a signal. What a
 * peer writes to, or reads from, a migrated region is copied in our own mapping of the heap
 * (memory/migrate.h).
 */
#ifndef MEMORY_MEMORY_H
#define MEMORY_MEMORY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/arena.h"
#include "base/cause.h"

/* Once per adapter: this process's slot. */
void memory_init(uint32_t slot);

/*
 * Checks all L_Keys of the list for `access` (0 = read) in PD `pd`. CAUSE_NONE, or why not. The
 * check is repeated when the memory is used.
 */
enum cause memory_check(const struct ibv_sge *sge, uint32_t count, uint32_t pd, uint32_t access);

/* Copies `bytes` from offset `offset` of the list to `to`. CAUSE_NONE, or why not. */
enum cause memory_gather(const struct ibv_sge *sge, uint32_t count, uint32_t pd, size_t offset,
			 void *to, size_t bytes);

/*
 * A copy to or from the list may wait for a page that the program supplies (on demand, and
 * userfaultfd(2)), or for another process (an imported region). A hint: keys may end meanwhile.
 */
bool memory_may_wait(const struct ibv_sge *sge, uint32_t count);

/* Copies `bytes` from `from` to offset `offset` of the list; the last word last. */
enum cause memory_scatter(const struct ibv_sge *sge, uint32_t count, uint32_t pd, size_t offset,
			  const void *from, size_t bytes);

/*
 * The same for a datagram. If this thread has called memory_check_copies, memory that is not there
 * is CAUSE_MEMORY_FAULT_LOCAL, at the cost of a system call for each 4 KiB; else SIGSEGV. A program
 * may unmap the memory of its receives and then destroy the QP, as UCX does: an adapter has pinned
 * the pages. Peers of an RC QP have ended by then as a rule, but datagrams may come late.
 */
enum cause memory_scatter_datagram(const struct ibv_sge *sge, uint32_t count, uint32_t pd,
				   size_t offset, const void *from, size_t bytes);

/* This thread is the progress thread, which is not to die of memory that the program unmapped. */
void memory_check_copies(void);

/* For checks of an R_Key. */
struct memory_peer {
	uint32_t pd;  /* number of the PD that the key must be of */
	uint32_t qpn; /* our QP that got the request */
};

/*
 * A request of a peer: the R_Key is checked for REMOTE_WRITE or REMOTE_READ, on the first
 * `check` bytes from `address` on, then `bytes` are copied. CAUSE_NONE, or why not.
 */
enum cause memory_write_remote(struct memory_peer peer, uint32_t rkey, uint64_t address,
			       uint32_t check, const void *from, uint32_t bytes);
/* The same from pieces, to consecutive addresses: one copy by the kernel for all. */
enum cause memory_write_remote_pieces(struct memory_peer peer, uint32_t rkey, uint64_t address,
				      uint32_t check, const struct iovec *from, int pieces,
				      uint32_t bytes);
enum cause memory_read_remote(struct memory_peer peer, uint32_t rkey, uint64_t address, void *to,
			      uint32_t bytes);

/*
 * FLUSH: the R_Key is checked for `access` (the FLUSH rights), on [address, address + bytes) or,
 * with `whole`, on the region. When it returns, all threads see what was written.
 */
enum cause memory_flush_remote(struct memory_peer peer, uint32_t rkey, uint64_t address,
			       uint32_t bytes, uint32_t access, bool whole);

/* This process's slot, for hazard_set of its own keys. */
uint32_t memory_slot(void);

/*
 * Flat copies: 0 or -EFAULT. The last word last. Both addresses may be bad; or only that of the
 * program's memory, the other is ours.
 */
int memory_copy(uint64_t to, uint64_t from, size_t bytes);
int memory_copy_to(uint64_t to, const void *from, size_t bytes);
int memory_copy_from(void *to, uint64_t from, size_t bytes);

/* The word at this address of ours, a multiple of 4, can be written. Changes nothing there. */
bool memory_is_writable(uint64_t address);

/*
 * Copies with plain stores, the last word last: a program may poll on it (tests/contract/README.md,
 * rule 27).
 */
void memory_copy_ordered(void *to, const void *from, size_t bytes);

/* Whether every page of the pieces can be read. */
bool memory_probe(const struct iovec *iov, int count);

/*
 * The list from `offset` on as pieces for the kernel: at most `max`, of one L_Key; returns how
 * many, and how long they are together, *bytes at most. Checks the key, and publishes a hazard on
 * it: the caller copies, then clears that. The kernel handles on-demand memory by itself. 0: the
 * list is bad and *cause is set, or it names the null MR, which has no memory; there is no hazard.
 */
int memory_pieces(const struct ibv_sge *sge, uint32_t count, uint32_t pd, uint32_t access,
		  size_t offset, size_t *bytes, struct iovec *iov, int max,
		  struct arena_hazard **hazard, enum cause *cause);

/* Checks such a part of the list for a copy that this process makes. False: as 0 above. */
bool memory_check_part(const struct ibv_sge *sge, uint32_t count, uint32_t pd, uint32_t access,
		       size_t offset, size_t bytes, enum cause *cause);

#endif
