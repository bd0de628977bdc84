/*
 * Pin - makes sure that a range of this process's memory is there.
 *
 * An adapter pins what is registered: it fails for memory that is not mapped or may not be used,
 * and brings pages in. The pages stay pageable here, because copying them faults like any access.
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
 * Brings [addr, addr + length) in for reading, or also for writing. 0, or -EFAULT: part of it is
 * not mapped, may not be used so, or has no file behind it. Any thread; may sleep. Writes nothing.
 */
int pin_range(const void *addr, size_t length, bool writable);

/*
 * Reads a byte of each page of [start, end) through the kernel, so a bad address is no signal. 0, -EFAULT, or
 * -EPERM: process_vm_readv is refused here.
 */
int pin_probe(uintptr_t start, uintptr_t end);

#endif
