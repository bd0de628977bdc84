/* SPDX-License-Identifier: BSD-2-Clause */
#include "packet/icrc.h"

#include <pthread.h>
#include <string.h>

#include "base/gid.h"
#include "packet/crc.h"

#define BTH_BYTES	12
#define BTH_RESERVED	4 /* the byte with FECN and BECN */
#define UDP_BYTES	8
#define IPV4_BYTES	20
#define IPV4_ID		4
#define IPV6_BYTES	40
#define IP_PROTOCOL_UDP 17
#define DATAGRAM_MAX	65535u /* of IP, with its headers */

/* All that the ICRC covers before the BTH. */
#define ONES_BYTES 8
#define LEAD_BYTES (ONES_BYTES + IPV6_BYTES + UDP_BYTES)

/*
 * A CRC is a polynomial over GF(2) modulo P, its highest power in the lowest bit. Appending a zero
 * byte multiplies it by x^8. It is linear: a difference in the bytes enters the register's lowest
 * bits, and is multiplied by x^8 for each byte from there to the end. So powers of x^8 give the
 * effect of a field on the CRC, and powers of x^-8 the field's value from that effect.
 */
#define POLYNOMIAL 0xedb88320u
#define ONE	   0x80000000u
#define X_8	   (ONE >> 8)

static uint32_t on_bytes[256];	  /* x^(8 i) */
static uint32_t on_blocks[256];	  /* x^(8 256 i) */
static uint32_t back_bytes[256];  /* x^(-8 i) */
static uint32_t back_blocks[256]; /* x^(-8 256 i) */
static uint32_t of_id[2][256];	  /* effect of each byte of an identification */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		product ^= b & -(a >> 31);
		b = (b >> 1) ^ (POLYNOMIAL & -(b & 1));
	}
	return product;
}

static uint32_t divide_by_x(uint32_t a)
{
	return a & ONE ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static void fill_powers(uint32_t *powers, uint32_t factor)
{
	powers[0] = ONE;
	for (int i = 1; i < 256; i++)
		powers[i] = multiply(powers[i - 1], factor);
}

static void make_tables(void)
{
	uint32_t back = ONE;

	for (int bit = 0; bit < 8; bit++)
		back = divide_by_x(back);
	fill_powers(back_bytes, back);
	fill_powers(back_blocks, multiply(back_bytes[255], back));
	fill_powers(on_bytes, X_8);
	fill_powers(on_blocks, multiply(on_bytes[255], X_8));
	for (uint32_t byte = 0; byte < 256; byte++) {
		of_id[0][byte] = multiply(byte, on_bytes[IPV4_BYTES - IPV4_ID + UDP_BYTES]);
		of_id[1][byte] = multiply(byte, on_bytes[IPV4_BYTES - IPV4_ID + UDP_BYTES - 1]);
	}
}

static void init(void)
{
	make_tables();
	crc_init();
}

void icrc_init(void)
{
	pthread_once(&once, init);
}

static uint8_t *put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
	return at + 2;
}

static uint8_t *put_ipv4(uint8_t *at, const struct icrc_path *path, size_t udp_bytes)
{
	*at++ = 0x45;
	*at++ = 0xff; /* TOS */
	at = put16(at, (unsigned)(IPV4_BYTES + udp_bytes));
	at = put16(at, 0);	/* identification: of_id */
	at = put16(at, 0x4000); /* DF */
	*at++ = 0xff;		/* TTL */
	*at++ = IP_PROTOCOL_UDP;
	at = put16(at, 0xffff); /* checksum */
	memcpy(at, path->source + 12, 4);
	memcpy(at + 4, path->destination + 12, 4);
	return at + 8;
}

static uint8_t *put_ipv6(uint8_t *at, const struct icrc_path *path, size_t udp_bytes)
{
	*at++ = 0x6f; /* traffic class and flow label are ones */
	memset(at, 0xff, 3);
	at = put16(at + 3, (unsigned)udp_bytes);
	*at++ = IP_PROTOCOL_UDP;
	*at++ = 0xff; /* hop limit */
	memcpy(at, path->source, 16);
	memcpy(at + 16, path->destination, 16);
	return at + 32;
}

/* Ones, IP, UDP. `length` counts from the BTH to the end of the ICRC. */
static uint32_t cover_lead(const struct icrc_path *path, size_t length)
{
	uint8_t covered[LEAD_BYTES], *at = covered + ONES_BYTES;

	memset(covered, 0xff, ONES_BYTES);
	if (gid_is_v4(path->source))
		at = put_ipv4(at, path, UDP_BYTES + length);
	else
		at = put_ipv6(at, path, UDP_BYTES + length);
	at = put16(at, path->source_port);
	at = put16(at, path->destination_port);
	at = put16(at, (unsigned)(UDP_BYTES + length));
	at = put16(at, 0xffff); /* checksum */
	return crc_add(0, covered, (size_t)(at - covered));
}

/* The effect of `bits` of the BTH's reserved byte on an ICRC at the end of `length` bytes. */
static uint32_t of_reserved(uint8_t bits, size_t length)
{
	size_t on = length - ICRC_BYTES - BTH_RESERVED;

	return multiply(multiply(bits, on_bytes[on & 0xff]), on_blocks[on >> 8 & 0xff]);
}

static const struct icrc_lead *make_lead(struct icrc_lead *lead, const struct icrc_path *path,
					 size_t length)
{
	lead->path = *path;
	lead->length = length;
	lead->crc = cover_lead(path, length);
	lead->reserved = of_reserved(0xff, length);
	lead->is_ipv4 = gid_is_v4(path->source);
	return lead;
}

static uint32_t last_word(const uint8_t address[16])
{
	uint32_t word;

	memcpy(&word, address + 12, sizeof(word));
	return word;
}

/* The FIRST of a message is 16 bytes longer than the MIDDLEs: their places have to differ. */
static unsigned place_of(const struct icrc_path *path, size_t length)
{
	uint32_t mixed = (last_word(path->source) ^ last_word(path->destination)) * 0x9e3779b1u;

	mixed = (mixed ^ path->source_port) * 0x85ebca6bu;
	return (mixed >> 24 ^ (unsigned)(length / 4)) % ICRC_MEMO_LEADS;
}

/* The entry in the memo or, without a memo, in `own`; computed if need be. */
static const struct icrc_lead *find_lead(struct icrc_memo *memo, struct icrc_lead *own,
					 const struct icrc_path *path, size_t length)
{
	struct icrc_lead *lead;

	if (!memo)
		return make_lead(own, path, length);
	lead = &memo->leads[place_of(path, length)];
	if (lead->length == length && memcmp(&lead->path, path, sizeof(*path)) == 0)
		return lead;
	return make_lead(lead, path, length);
}

/* The CRC up to the BTH. */
static uint32_t begin(const struct icrc_lead *lead, uint16_t identification)
{
	uint32_t crc = lead->crc;

	if (lead->is_ipv4)
		crc ^= of_id[0][identification >> 8] ^ of_id[1][identification & 0xff];
	return crc;
}

/* The ICRC of the whole packet, with the BTH's reserved byte as ones. */
static uint32_t end(const struct icrc_lead *lead, uint32_t crc, const uint8_t *bth)
{
	crc ^= lead->reserved;
	if (bth[BTH_RESERVED])
		crc ^= of_reserved(bth[BTH_RESERVED], lead->length);
	return crc;
}

uint32_t icrc_compute(struct icrc_memo *memo, const struct icrc_path *path, uint16_t identification,
		      const uint8_t *header, size_t header_bytes, const struct iovec *pieces,
		      unsigned count, unsigned pad)
{
	static const uint8_t zeroes[4];
	size_t length = header_bytes + pad + ICRC_BYTES;
	const struct icrc_lead *lead;
	struct icrc_lead own;
	uint32_t crc;

	for (unsigned i = 0; i < count; i++)
		length += pieces[i].iov_len;
	lead = find_lead(memo, &own, path, length);
	crc = crc_add(begin(lead, identification), header, header_bytes);
	for (unsigned i = 0; i < count; i++)
		if (pieces[i].iov_len > 0)
			crc = crc_add(crc, pieces[i].iov_base, pieces[i].iov_len);
	if (pad > 0)
		crc = crc_add(crc, zeroes, pad);
	return end(lead, crc, header);
}

/*
 * Two packets of this length have ICRCs that differ by `difference`. True: they differ in their
 * identifications alone, and *identification is the difference of these. The two bytes enter the
 * register's low 16 bits; multiplying by x^-8 for each byte from there to the end finds them.
 */
static bool solve(uint32_t difference, size_t length, uint16_t *identification)
{
	size_t back = IPV4_BYTES - IPV4_ID + UDP_BYTES + length - ICRC_BYTES;
	uint32_t taken_in = multiply(difference, back_bytes[back & 0xff]);

	taken_in = multiply(taken_in, back_blocks[back >> 8]);
	if (taken_in >> 16)
		return false;
	*identification = __builtin_bswap16((uint16_t)taken_in);
	return true;
}

bool icrc_check(struct icrc_memo *memo, const struct icrc_path *path, const uint8_t *bytes,
		size_t length, uint16_t *identification)
{
	const struct icrc_lead *lead;
	struct icrc_lead own;
	uint32_t computed, received;
	uint16_t difference;
	const uint8_t *icrc;

	if (length < BTH_BYTES + ICRC_BYTES || length > DATAGRAM_MAX - IPV4_BYTES - UDP_BYTES)
		return false;
	icrc = bytes + length - ICRC_BYTES;
	received = (uint32_t)icrc[0] | (uint32_t)icrc[1] << 8 | (uint32_t)icrc[2] << 16 |
		   (uint32_t)icrc[3] << 24;
	lead = find_lead(memo, &own, path, length);
	computed = crc_add(begin(lead, *identification), bytes, length - ICRC_BYTES);
	computed = end(lead, computed, bytes);
	if (computed == received)
		return true;
	if (!lead->is_ipv4 || !solve(computed ^ received, length, &difference))
		return false;
	*identification ^= difference;
	return true;
}
