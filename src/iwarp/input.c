/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "iwarp/accept.h"
#include "iwarp/bytes.h"
#include "iwarp/close.h"
#include "iwarp/crc32c.h"
#include "iwarp/marker.h"
#include "memory/hazard.h"

#define SHARE_BYTES	 (256 * 1024)
#define IN_PLACE_MIN	 4096
#define AFTER_PLACE	 256 /* bytes read behind payload in place: the trailer, the next header */
#define WHOLE_FPDU_BYTES (FPDU_BYTES_MAX + MARKERS_MAX(FPDU_BYTES_MAX) * MARKER_BYTES)

int input_init(struct iwarp_qp *iq)
{
	struct input *input = &iq->input;

	input->whole = iq->options.mpa.crc || iq->options.mpa.gets_markers;
	input->buffer = malloc(INPUT_BYTES);
	if (input->whole)
		input->fpdu = malloc(WHOLE_FPDU_BYTES);
	if (input->buffer && (input->fpdu || !input->whole))
		return 0;
	input_fini(input);
	return -ENOMEM;
}

void input_fini(struct input *input)
{
	free(input->buffer);
	free(input->fpdu);
	input->buffer = input->fpdu = NULL;
}

bool input_add(struct input *input, const void *bytes, size_t count)
{
	if (count > INPUT_BYTES - input->end)
		return false;
	if (count)
		memcpy(input->buffer + input->end, bytes, count);
	input->end += (uint32_t)count;
	return true;
}

static bool bad_length(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	close_on_bad_segment(iq, TERMINATE_MPA_MARKER, CAUSE_IWARP_SEGMENT);
	return false;
}

static bool end_fpdu(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	iq->input.state = INPUT_HEADER;
	iq->input.any = true;
	iq->sending.gated = false;
	/* an FPDU of no bytes: the initiator is ready to receive (RFC 6581) */
	return !iq->input.ulpdu || accept_end(iq);
}

/* The headers at `from` are complete. */
static bool begin_fpdu(struct iwarp_qp *iq, const uint8_t *from) REQUIRES(iq->qp->lock)
{
	struct input *input = &iq->input;
	unsigned header = segment_header_bytes(from[FPDU_LENGTH_BYTES]);

	memcpy(input->header, from + FPDU_LENGTH_BYTES, header);
	segment_decode(input->header, &input->segment);
	input->payload = input->left = input->ulpdu - header;
	input->state = INPUT_PAYLOAD;
	return accept_begin(iq);
}

/*
 * Bytes of the FPDU up to its payload, of which `available` are at `from`; 0: more bytes are needed
 * to tell. Sets input.ulpdu.
 */
static unsigned header_bytes(struct input *input, const uint8_t *from, uint32_t available)
{
	if (available < FPDU_LENGTH_BYTES)
		return 0;
	input->ulpdu = get16(from);
	if (!input->ulpdu)
		return FPDU_LENGTH_BYTES;
	if (available <= FPDU_LENGTH_BYTES)
		return 0;
	return FPDU_LENGTH_BYTES + segment_header_bytes(from[FPDU_LENGTH_BYTES]);
}

static void begin_trailer(struct input *input)
{
	input->state = INPUT_TRAILER;
	input->left = fpdu_pad(input->ulpdu) + FPDU_CRC_BYTES;
}

/* One step. False: nothing more can be done with the bytes that are there; *ok: as the others. */
static bool parse_step(struct iwarp_qp *iq, bool *ok) REQUIRES(iq->qp->lock)
{
	struct input *input = &iq->input;
	const uint8_t *from = input->buffer + input->start;
	uint32_t available = input->end - input->start, n;
	unsigned header;

	if (input->state == INPUT_HEADER) {
		header = header_bytes(input, from, available);
		if (header && input->ulpdu && input->ulpdu < header - FPDU_LENGTH_BYTES) {
			*ok = bad_length(iq);
			return false;
		}
		if (!header || available < header)
			return false;
		input->start += header;
		if (input->ulpdu)
			*ok = begin_fpdu(iq, from);
		else
			begin_trailer(input);
		return *ok;
	}
	n = input->left < available ? input->left : available;
	if (input->state == INPUT_PAYLOAD) {
		if (n)
			*ok = accept_payload(iq, from, n);
		input->left -= n;
		input->start += n;
		if (*ok && !input->left)
			begin_trailer(input);
		return *ok && (n || input->state == INPUT_TRAILER);
	}
	input->left -= n;
	input->start += n;
	if (input->left)
		return false;
	*ok = end_fpdu(iq);
	return *ok;
}

/* Executes what is in the buffer. False: no more is to be executed, for now or for ever. */
static bool parse(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	bool ok = true;

	while (parse_step(iq, &ok))
		;
	return ok;
}

/* All bytes of an FPDU, markers included, whose own bytes are `bytes`. */
static size_t raw_bytes(const struct iwarp_qp *iq, uint32_t bytes)
{
	size_t raw = bytes;

	if (!iq->options.mpa.gets_markers)
		return raw;
	for (;;) {
		size_t with = bytes + marker_count(iq->input.position, raw) * MARKER_BYTES;

		if (with == raw)
			return raw;
		raw = with;
	}
}

/* How many bytes of the FPDU are wanted at least, with what is known of it. */
static size_t wanted(struct iwarp_qp *iq)
{
	struct input *input = &iq->input;
	size_t first = raw_bytes(iq, FPDU_LENGTH_BYTES);

	if (input->fpdu_filled < first)
		return first;
	input->ulpdu = get16(input->fpdu + first - FPDU_LENGTH_BYTES);
	return raw_bytes(iq, fpdu_bytes(input->ulpdu));
}

/* Takes the markers out of the raw FPDU. False: one does not point to its start. */
static bool remove_markers(struct iwarp_qp *iq)
{
	struct input *input = &iq->input;
	size_t start = input->position % MARKER_INTERVAL ? 0 : MARKER_BYTES, to = 0, at = 0;

	while (at < input->fpdu_filled) {
		size_t n = MARKER_INTERVAL - (input->position + at) % MARKER_INTERVAL;

		if (n == MARKER_INTERVAL) {
			if (get16(input->fpdu + at + 2) != (at ? at - start : 0))
				return false;
			at += MARKER_BYTES;
			n -= MARKER_BYTES;
		}
		if (n > input->fpdu_filled - at)
			n = input->fpdu_filled - at;
		memmove(input->fpdu + to, input->fpdu + at, n);
		to += n;
		at += n;
	}
	return true;
}

static bool crc_is_right(const struct input *input)
{
	uint32_t covered = input->fpdu_filled - FPDU_CRC_BYTES;
	uint8_t crc[CRC32C_BYTES];

	crc32c_put(crc, crc32c(input->fpdu, covered));
	return !memcmp(crc, input->fpdu + covered, sizeof(crc));
}

/* The raw FPDU is complete. */
static bool execute_whole(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	struct input *input = &iq->input;
	uint32_t raw = input->fpdu_filled;
	unsigned header;
	bool ok = true;

	if (iq->options.mpa.crc && !crc_is_right(input)) {
		close_on_bad_segment(iq, TERMINATE_MPA_CRC, CAUSE_IWARP_CRC);
		return false;
	}
	if (iq->options.mpa.gets_markers && !remove_markers(iq))
		return bad_length(iq);
	input->position += raw;
	input->fpdu_filled = 0;
	header = header_bytes(input, input->fpdu, FPDU_LENGTH_BYTES + 1);
	if (input->ulpdu) {
		if (input->ulpdu < header - FPDU_LENGTH_BYTES)
			return bad_length(iq);
		ok = begin_fpdu(iq, input->fpdu);
		if (ok && input->left)
			ok = accept_payload(iq, input->fpdu + header, input->left);
	}
	return ok && end_fpdu(iq);
}

/* As `parse`, for FPDUs that are put together first. */
static bool parse_whole(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	struct input *input = &iq->input;

	for (;;) {
		size_t missing = wanted(iq) - input->fpdu_filled;
		uint32_t n = input->end - input->start;

		if (!missing) {
			if (!execute_whole(iq))
				return false;
			continue;
		}
		if (!n)
			return true;
		if (n > missing)
			n = (uint32_t)missing;
		memcpy(input->fpdu + input->fpdu_filled, input->buffer + input->start, n);
		input->fpdu_filled += n;
		input->start += n;
	}
}

/* Reads once. The bytes that came, or what env.receive says; *full: there may be more. */
static ssize_t read_some(struct iwarp_qp *iq, bool *full)
{
	struct input *input = &iq->input;
	struct arena_hazard *hazard = NULL;
	struct iovec pieces[2];
	int count = 0;
	size_t placed = 0;
	ssize_t n;

	memmove(input->buffer, input->buffer + input->start, input->end - input->start);
	input->end -= input->start;
	input->start = 0;
	if (input->state == INPUT_PAYLOAD && !input->end && input->left >= IN_PLACE_MIN)
		hazard = accept_place(iq, &pieces[0]);
	if (hazard)
		placed = pieces[count++].iov_len;
	pieces[count].iov_base = input->buffer + input->end;
	pieces[count++].iov_len = hazard ? AFTER_PLACE : INPUT_BYTES - input->end;
	n = iwarp_env.receive(iq->stream, pieces, count);
	if (hazard)
		hazard_clear(hazard);
	if (n <= 0)
		return n;
	*full = (size_t)n == placed + pieces[count - 1].iov_len;
	if (placed > (size_t)n)
		placed = (size_t)n;
	input->left -= (uint32_t)placed;
	input->end += (uint32_t)((size_t)n - placed);
	return n;
}

/*
 * The peer sends no more, but may still read: what was posted before leaves. Later requests do not,
 * or the end would wait for ever.
 */
static void end_input(struct iwarp_qp *iq)
{
	iq->input.at_end = true;
	iq->input.until = iq->qp->sq.tail;
	if (iq->state == STREAM_OPEN)
		iwarp_env.ending(iq->stream, false);
}

bool input_run(struct iwarp_qp *iq, bool *any) REQUIRES(iq->qp->lock)
{
	struct input *input = &iq->input;
	bool full = true;
	size_t done = 0;

	if (iq->refused.pending || (iq->revoking && !accept_end(iq)))
		return false;
	while (iwarp_is_receiving(iq)) {
		ssize_t n;

		if (!(input->whole ? parse_whole(iq) : parse(iq)) || input->at_end)
			return false;
		if (!full)
			return false;
		if (done >= SHARE_BYTES)
			return true;
		n = read_some(iq, &full);
		if (n == IWARP_WOULD_BLOCK)
			return false;
		if (n == IWARP_LOST ||
		    (n == IWARP_END && (input->end || input->fpdu_filled || input->state)))
			iq->lost = true;
		else if (n == IWARP_END)
			end_input(iq);
		if (n < 0)
			return false;
		*any = true;
		done += (size_t)n;
	}
	return false;
}

bool input_discard(struct iwarp_qp *iq, bool *any)
{
	struct iovec piece = { iq->input.buffer, INPUT_BYTES };

	for (size_t done = 0; done < SHARE_BYTES;) {
		ssize_t n = iwarp_env.receive(iq->stream, &piece, 1);

		if (n == IWARP_LOST)
			iq->lost = true;
		if (n == IWARP_END)
			iq->input.at_end = true;
		if (n <= 0)
			return false;
		*any = true;
		done += (size_t)n;
	}
	return true;
}
