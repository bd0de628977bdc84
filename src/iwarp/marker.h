/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marker - the markers of MPA (RFC 5044 4.3): every 512 bytes of the stream, from the first byte
 * after start-up on, four bytes that point back to the start of their FPDU.
 *
 * In:  FPDUs without markers, and how many bytes of the stream came before.
 * Out: the same with markers; and back.
 *
 * FPDUs are multiples of four bytes, and so is the interval: a marker never cuts a field of four
 * bytes at such an offset. A marker ahead of an FPDU belongs to it, and its CRC covers all markers
 * up to the CRC. Pure.
 */
#ifndef IWARP_MARKER_H
#define IWARP_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MARKER_BYTES	4
#define MARKER_INTERVAL 512
/* Markers in bytes that have `bytes` without them, at most. */
#define MARKERS_MAX(bytes) ((bytes) / (MARKER_INTERVAL - MARKER_BYTES) + 2)

/*
 * Copies `bytes` of an FPDU to `to` with markers between them; `position` is the place in the
 * stream where the FPDU begins, and its first marker if there is one there. Returns how many there
 * are now. `from` may overlap with `to`, MARKERS_MAX(bytes) markers further on.
 */
size_t marker_insert(uint8_t *to, const uint8_t *from, size_t bytes, uint64_t position);

/* How many markers are in the first `bytes` bytes of the stream from `position` on. */
size_t marker_count(uint64_t position, size_t bytes);

#endif
