/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/secret.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

int secret_init(struct secret *s)
{
	ssize_t n;

	/*
	 * So few bytes are never cut short. A signal may come while the kernel gathers entropy
	 * after boot.
	 */
	do
		n = getrandom(s->key, sizeof(s->key), 0);
	while (n < 0 && errno == EINTR);
	return n == sizeof(s->key) ? 0 : -EIO;
}

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4], unsigned rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

/* Up to eight bytes, little-endian. */
static uint64_t load(const uint8_t *bytes, size_t count)
{
	uint64_t word = 0;

	for (size_t i = 0; i < count; i++)
		word |= (uint64_t)bytes[i] << 8 * i;
	return word;
}

static void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	mix(v, 2);
	v[0] ^= word;
}

uint64_t secret_hash(const struct secret *s, const void *data, size_t len)
{
	uint64_t v[4] = {
		s->key[0] ^ UINT64_C(0x736f6d6570736575),
		s->key[1] ^ UINT64_C(0x646f72616e646f6d),
		s->key[0] ^ UINT64_C(0x6c7967656e657261),
		s->key[1] ^ UINT64_C(0x7465646279746573),
	};
	const uint8_t *bytes = data;
	size_t whole = len & ~(size_t)7;

	for (size_t i = 0; i < whole; i += 8)
		absorb(v, load(bytes + i, 8));
	absorb(v, load(bytes + whole, len - whole) | (uint64_t)len << 56);
	v[2] ^= 0xff;
	mix(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
