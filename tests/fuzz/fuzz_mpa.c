/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The start-up of MPA with any bytes, cut anywhere, at either end: it takes no more than the frame,
 * and what it agrees to is within the limits.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "iwarp/mpa_startup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static const uint8_t own_place[SAME_HOST_PLACE_BYTES] = { 1 };

static void check(const struct mpa_startup *startup, const struct mpa_offer *offer)
{
	const struct mpa_agreed *agreed = &startup->agreed;

	size_t place = agreed->same_host && agreed->initiator ? SAME_HOST_PLACE_BYTES : 0;

	if (startup->state == MPA_ASKED || startup->state == MPA_ESTABLISHED)
		require(startup->private_data >= startup->in + MPA_FRAME_BYTES &&
			startup->private_data + startup->private_bytes + place ==
				startup->in + startup->in_bytes);
	require(startup->in_bytes <= MPA_FRAME_MAX && startup->out_bytes <= MPA_FRAME_MAX);
	if (startup->state != MPA_ESTABLISHED)
		return;
	require(!agreed->same_host || (agreed->extensions && offer->same_host));
	require(agreed->ird <= MPA_IRD_MAX && agreed->ord <= offer->ord);
	require(!agreed->sends_markers || !offer->refuse_markers);
	require(!offer->crc || agreed->crc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mpa_startup startup;
	struct mpa_offer offer;
	size_t piece;

	if (size < 4)
		return 0;
	offer = (struct mpa_offer){
		.revision = 1 + (data[0] & 1),
		.crc = data[0] & 2,
		.markers = data[0] & 4,
		.refuse_markers = data[0] & 8,
		.peer_to_peer = data[0] & 16,
		.extensions = data[0] & 32,
		.same_host = data[0] & 128,
		.ird = data[1] & 31,
		.ord = data[1] >> 3,
	};
	piece = 1 + data[2];
	if (data[0] & 64)
		require(!mpa_startup_call(&startup, &offer, data, size % 4));
	else
		mpa_startup_answer(&startup, &offer);
	data += 3;
	size -= 3;
	while (size) {
		size_t n = size < piece ? size : piece, wanted = mpa_startup_wanted(&startup);
		size_t taken = mpa_startup_feed(&startup, data, n);

		require(taken <= n && (taken == n || startup.state != MPA_WAITING));
		require((startup.state == MPA_WAITING) == (mpa_startup_wanted(&startup) > 0));
		require(wanted > 0 || !taken);
		check(&startup, &offer);
		data += n;
		size -= n;
	}
	if (startup.state == MPA_ASKED) {
		int error;

		if (offer.same_host)
			mpa_startup_offer_place(&startup, own_place);
		error = mpa_startup_accept(&startup, 16, 16, NULL, 0);

		require(!error || startup.state == MPA_REJECTED);
		check(&startup, &offer);
	}
	return 0;
}
