/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICRC - the invariant CRC of a RoCEv2 packet (IBA 7.8.1, annex A17.3.3).
 *
 * CRC-32 over eight bytes of ones, the IP and UDP headers with the fields that routers change set
 * to ones, the BTH with its reserved byte (FECN, BECN) set to ones, and the rest up to the ICRC
 * (packet/crc.h).
 *
 * The IPv4 identification is covered, too, but a UDP socket neither sets nor sees it: it is 0 in a
 * datagram with DF from an unconnected socket and counts 0, 1, 2, ... through the segments of
 * UDP_SEGMENT. A receiver solves for it: CRC is linear, so the received ICRC and the ICRC computed
 * with identification 0 differ by a function of the identification alone, or the packet is damaged.
 * IPv6 packets have no such field.
 *
 * Pure, except for the tables of icrc_init.
 */
#ifndef PACKET_ICRC_H
#define PACKET_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define ICRC_BYTES 4

/* The fields of IP and UDP headers that the ICRC covers and that differ between flows. */
struct icrc_path {
	uint8_t source[16], destination[16];	/* IPv4-mapped: IPv4 */
	uint16_t source_port, destination_port; /* host order */
};

/*
 * A cache of the CRC of everything ahead of the BTH, which is the same in all packets of one flow
 * and length. With it a packet costs only the CRC of its own bytes. Flows of several processes and
 * hosts alternate, so the cache holds several, found by a hash. One thread at a time uses it; all
 * zero at first.
 */
#define ICRC_MEMO_LEADS 32
struct icrc_memo {
	struct icrc_lead {
		struct icrc_path path;
		bool is_ipv4;
		size_t length; /* from the BTH to the end of the ICRC; 0: unused */
		uint32_t crc;  /* with identification 0 */
		/* effect on the CRC of setting the BTH's reserved byte to ones */
		uint32_t reserved;
	} leads[ICRC_MEMO_LEADS];
};

/* Once; any number of times, by any thread. */
void icrc_init(void);

/*
 * The ICRC as the four bytes read as a little-endian number, which is how they are sent.
 * `header` begins with the BTH; the pieces and `pad` zero bytes follow. `memo` may be NULL.
 */
uint32_t icrc_compute(struct icrc_memo *memo, const struct icrc_path *path, uint16_t identification,
		      const uint8_t *header, size_t header_bytes, const struct iovec *pieces,
		      unsigned count, unsigned pad);

/*
 * Checks a whole packet, `length` bytes from the BTH to the end of its ICRC. For IPv4 tries
 * *identification first, then solves for it and stores the result. False: damaged, or shorter than
 * BTH and ICRC. `memo` may be NULL.
 */
bool icrc_check(struct icrc_memo *memo, const struct icrc_path *path, const uint8_t *bytes,
		size_t length, uint16_t *identification);

#endif
