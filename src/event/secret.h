/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Secret - a hash that cannot be foreseen without its key (SipHash-2-4).
 *
 * In:  bytes that another process or host may have chosen.
 * Out: 64 bits; the same for the same bytes as long as the secret lives.
 *
 * A key comes from the kernel and never leaves the process. Pure otherwise, any thread.
 */
#ifndef EVENT_SECRET_H
#define EVENT_SECRET_H

#include <stddef.h>
#include <stdint.h>

struct secret {
	uint64_t key[2];
};

/* Makes a key. 0; -errno: the kernel gives no random bytes. */
int secret_init(struct secret *s);

uint64_t secret_hash(const struct secret *s, const void *data, size_t len);

#endif
