/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two QPs, one of which reads the other's memory over a wire that loses what a test says.
 *
 * The memory that is read holds a version, which its program raises whenever a request arrives: the
 * versions that READs bring never fall.
 */
#ifndef READ_PAIR_H
#define READ_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"

#include "base/counter.h"

#define READ_BYTES   (256 * 1024)
#define MTU	     1024
#define MANY	     2048
#define READ_REQUEST 0x0c
#define RESERVED_AT  8 /* the byte of a BTH with packet.original */
#define READ_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

extern uint8_t here[READ_BYTES], there[READ_BYTES];

/* By PSN, from the connection's first on: so many times it is lost, it came. */
extern unsigned lose_response[MANY], lose_request[MANY], responses[MANY], requests[MANY];
extern unsigned asked, asked_packets; /* requests with the bit, and the responses they want */
/* The responder knows nothing of the bit; sets it always; answers with those of the request. */
extern bool foreign, marks_all, echoes;
extern uint32_t version;

void raise_version(void);
uint64_t counted(enum counter counter);
uint32_t index_of(psn_t psn);
psn_t psn(uint32_t index);
bool on_packet(struct rig_packet *packet, struct packet *decoded);
int read_setup(void **state);
void run_us(uint64_t us);
void expect(uint64_t from, uint64_t to);

/* Versions in `here` do not fall, from its beginning on. */
void check_order(uint32_t bytes);
void post_reads(unsigned count, uint32_t packets);

/* A READ of one packet, the connection's first; then both ends know each other. */
void get_acquainted(void);

/* As if a had sent it; the next response packets wait then. */
void inject_read(uint32_t index, uint32_t offset, uint32_t bytes, bool original, uint32_t rkey);

/* So many packets wait from `index` on, marked or not, with this version. */
void expect_responses(uint32_t index, unsigned count, bool marked, uint32_t is);

#endif
