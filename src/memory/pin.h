/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pin - faults a range of this process's memory in, as registration with an adapter does.
 *
 * An adapter pins pages. It refuses memory that is not mapped, or lacks the rights. Here the pages
 * stay pageable, because copies fault them in like any access.
 */
#ifndef MEMORY_PIN_H
#define MEMORY_PIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Not in headers before Linux 5.14. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/*
 * Faults [addr, addr + length) in for reading, or also for writing. 0, or -EFAULT: part of it is
 * not mapped, lacks the right, or lies beyond the end of its file. Any thread; may sleep. Writes
 * nothing.
 */
int pin_range(const void *addr, size_t length, bool writable);

/*
 * Reads a byte of each page of [start, end) through the kernel, so a bad address raises no signal.
 * 0, -EFAULT, or -EPERM: process_vm_readv is refused here.
 */
int pin_probe(uintptr_t start, uintptr_t end);

#endif
