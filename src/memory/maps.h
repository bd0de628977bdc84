/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps - the mappings of this process, from /proc/thread-self/maps: /proc/self is the process's
 * first thread, and its files are empty once that has ended (pthread_exit in main).
 *
 * Any thread. Takes no locks and calls no allocator: it runs while pages that may be the
 * allocator's are guarded (memory/guard.h), and beside a fork.
 */
#ifndef MEMORY_MAPS_H
#define MEMORY_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping {
	uintptr_t start, end;
	char rights[5]; /* "rw-p" */
	uint64_t offset;
	dev_t device;
	ino_t inode;   /* 0: none */
	char name[16]; /* its beginning; "" if it has none */
};

/*
 * For a file that could not be opened, by its errno: -EAGAIN where the program has used up its
 * descriptors or memory, which may pass; -EACCES for EPERM, by which a seccomp filter may refuse;
 * else -errno.
 */
int maps_open_error(int error);

/*
 * Calls visit for each mapping in order of addresses, until it returns false. 0, -EIO, or
 * maps_open_error: then it was called for none.
 */
int maps_visit(bool (*visit)(const struct mapping *mapping, void *arg), void *arg);

/*
 * The same by a descriptor that was opened before, as no other may be left later. It is good as
 * long as the thread lives that opened it, for one caller at a time; in a child of a fork it still
 * tells of the parent. Returns the descriptor or maps_open_error.
 */
int maps_open(void);
int maps_visit_file(int fd, bool (*visit)(const struct mapping *mapping, void *arg), void *arg);

/* Reads a number in this base at *at, which moves past it. For other files of /proc as well. */
uint64_t maps_number(const char **at, unsigned base);

/*
 * The number of the line "NAME:" of /proc/thread-self/status (proc(5)). 0; -EIO: it does not tell;
 * or maps_open_error.
 */
int status_number(const char *name, uint64_t *number);

#endif
