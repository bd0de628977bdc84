/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Same host - what the two ends of a connection tell each other to find that they are processes of
 * one host, whose path is shared memory then.
 *
 * In:  the places of both ends. Out: their bytes in MPA's reply, and in the frame that follows it.
 *
 *   initiator                                  responder
 *       request, FLAG_ASKS_PLACE ------------>
 *       <------------ reply, FLAG_TELLS_PLACE and the responder's place
 *   meets the place, or does not
 *       frame: this end's place, or none ---->
 *                                          meets it; its QP is ready
 *       <------------------------ a byte: SAME_HOST_READY
 *   its QP begins to send
 *
 * A frame without a place is followed by FPDUs. A frame with one ends the use of the stream: but
 * for that byte it carries nothing but its end. Both processes find the other's arena by its place,
 * through verbatimd; the place is believed because the QP there names this end's.
 *
 * Pure.
 */
#ifndef IWARP_SAME_HOST_H
#define IWARP_SAME_HOST_H

#include <stdbool.h>
#include <stdint.h>

#define SAME_HOST_PLACE_BYTES 16
#define SAME_HOST_FRAME_BYTES 24
#define SAME_HOST_READY	      0x52

/* Where one end of a connection is on its host. */
struct same_host_place {
	uint32_t qpn;	 /* with the slot of its process; never 0 */
	uint64_t cookie; /* of the process's arena (base/arena.h) */
};

void same_host_put_place(uint8_t to[SAME_HOST_PLACE_BYTES], const struct same_host_place *place);
void same_host_get_place(const uint8_t from[SAME_HOST_PLACE_BYTES], struct same_host_place *place);

/* The initiator's frame; NULL: the path is the stream. */
void same_host_put_frame(uint8_t to[SAME_HOST_FRAME_BYTES], const struct same_host_place *place);

/* False: it is no such frame. *shared: the path is shared memory, and *place is the peer's. */
bool same_host_get_frame(const uint8_t from[SAME_HOST_FRAME_BYTES], bool *shared,
			 struct same_host_place *place);

#endif
