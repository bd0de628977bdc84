/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/mpa_startup.h"

#include <errno.h>
#include <string.h>

#include "iwarp/bytes.h"
#include "iwarp/marker.h"
#include "iwarp/segment.h"

/* The frame: a key of 16 bytes, flags, the revision, the number of bytes that follow. */
#define KEY_BYTES     16
#define AT_FLAGS      16
#define AT_REVISION   17
#define AT_LENGTH     18
#define FLAG_MARKERS  0x80
#define FLAG_CRC      0x40
#define FLAG_REJECT   0x20
#define FLAG_ENHANCED 0x10 /* RFC 6581: IRD and ORD come before the private data */
/* siw echoes the flags of a request, so a request and its reply have two bits each. */
#define FLAG_HAS_EXT	 0x02 /* a request of Verbatim: RFC 7306 is there */
#define FLAG_TAKES_EXT	 0x01 /* the reply to that */
#define FLAG_ASKS_PLACE	 0x04 /* a request: the ends may be processes of one host */
#define FLAG_TELLS_PLACE 0x08 /* the reply to that: the responder's place ends the private data */
#define REVISION_MAX	 2

/* RFC 6581 9: above IRD and ORD. */
#define NEGOTIATION_BYTES 4
#define IRD_PEER_TO_PEER  0x8000
#define IRD_EMPTY	  0x4000
#define ORD_WRITE	  0x8000
#define ORD_READ	  0x4000

static const char request_key[KEY_BYTES + 1] = "MPA ID Req Frame";
static const char reply_key[KEY_BYTES + 1] = "MPA ID Rep Frame";

static uint16_t least(uint16_t a, uint16_t b)
{
	return a < b ? a : b;
}

static bool is_initiator(const struct mpa_startup *startup)
{
	return startup->agreed.initiator;
}

/* Makes `out`. `ird` and `ord` have the flags of RFC 6581 with them. */
static int make_frame(struct mpa_startup *startup, const char *key, uint8_t flags, uint16_t ird,
		      uint16_t ord, const void *private_data, size_t bytes)
{
	size_t ahead = flags & FLAG_ENHANCED ? NEGOTIATION_BYTES : 0;
	uint8_t *out = startup->out;

	if (bytes > MPA_PRIVATE_MAX - ahead)
		return -EINVAL;
	memcpy(out, key, KEY_BYTES);
	out[AT_FLAGS] = flags;
	out[AT_REVISION] = startup->revision;
	put16(out + AT_LENGTH, (uint16_t)(ahead + bytes));
	if (ahead) {
		put16(out + MPA_FRAME_BYTES, ird);
		put16(out + MPA_FRAME_BYTES + 2, ord);
	}
	if (bytes)
		memcpy(out + MPA_FRAME_BYTES + ahead, private_data, bytes);
	startup->out_bytes = (uint16_t)(MPA_FRAME_BYTES + ahead + bytes);
	startup->out_sent = 0;
	return 0;
}

static uint8_t wanted_flags(const struct mpa_offer *offer)
{
	return (uint8_t)((offer->markers ? FLAG_MARKERS : 0) | (offer->crc ? FLAG_CRC : 0));
}

int mpa_startup_call(struct mpa_startup *startup, const struct mpa_offer *offer,
		     const void *private_data, size_t bytes)
{
	bool enhanced = offer->revision >= 2;
	uint16_t ird = least(offer->ird, MPA_RD_MAX), ord = least(offer->ord, MPA_RD_MAX);
	uint8_t flags = wanted_flags(offer);

	memset(startup, 0, sizeof(*startup));
	startup->offer = *offer;
	startup->revision = offer->revision;
	startup->agreed.initiator = true;
	if (enhanced)
		flags |= FLAG_ENHANCED;
	if (offer->extensions)
		flags |= FLAG_HAS_EXT;
	if (offer->extensions && offer->same_host)
		flags |= FLAG_ASKS_PLACE;
	if (offer->peer_to_peer) {
		ird |= IRD_PEER_TO_PEER | IRD_EMPTY;
		ord |= ORD_WRITE | ORD_READ;
	}
	return make_frame(startup, request_key, flags, ird, ord, private_data, bytes);
}

void mpa_startup_answer(struct mpa_startup *startup, const struct mpa_offer *offer)
{
	memset(startup, 0, sizeof(*startup));
	startup->offer = *offer;
}

static void fail(struct mpa_startup *startup, enum cause cause)
{
	startup->state = MPA_FAILED;
	startup->cause = cause;
}

/* The fixed part of the peer's frame is there: false if it is not a frame. */
static bool check_frame(struct mpa_startup *startup)
{
	const uint8_t *in = startup->in;
	const char *key = is_initiator(startup) ? reply_key : request_key;

	if (memcmp(in, key, KEY_BYTES) || in[AT_REVISION] > REVISION_MAX ||
	    get16(in + AT_LENGTH) > MPA_PRIVATE_MAX) {
		fail(startup, CAUSE_MPA_FRAME);
		return false;
	}
	return true;
}

static size_t frame_bytes(const struct mpa_startup *startup)
{
	if (startup->in_bytes < MPA_FRAME_BYTES)
		return MPA_FRAME_BYTES;
	return MPA_FRAME_BYTES + get16(startup->in + AT_LENGTH);
}

/* Splits what follows the fixed part: IRD and ORD, private data. */
static bool take_private(struct mpa_startup *startup)
{
	uint16_t length = get16(startup->in + AT_LENGTH);
	const uint8_t *from = startup->in + MPA_FRAME_BYTES;

	startup->flags = startup->in[AT_FLAGS];
	startup->peer_negotiates = startup->in[AT_REVISION] == 2 && startup->flags & FLAG_ENHANCED;
	if (startup->peer_negotiates) {
		if (length < NEGOTIATION_BYTES) {
			fail(startup, CAUSE_MPA_FRAME);
			return false;
		}
		startup->peer_ird = get16(from) & MPA_RD_MAX;
		startup->peer_ord = get16(from + 2) & MPA_RD_MAX;
		/* the two upper bits of IRD, then those of ORD */
		startup->peer_rtr = (uint16_t)((get16(from) & ~MPA_RD_MAX) |
					       (get16(from + 2) & ~MPA_RD_MAX) >> 2);
		from += NEGOTIATION_BYTES;
		length -= NEGOTIATION_BYTES;
	}
	startup->private_data = from;
	startup->private_bytes = length;
	return true;
}

/* The kind of RTR in peer_rtr; the order is siw's. */
static enum mpa_rtr choose_rtr(const struct mpa_startup *startup)
{
	uint16_t rtr = startup->peer_rtr;

	if (!startup->peer_negotiates || !(rtr & IRD_PEER_TO_PEER))
		return MPA_RTR_NONE;
	if (rtr & ORD_WRITE >> 2)
		return MPA_RTR_WRITE;
	if (rtr & ORD_READ >> 2)
		return MPA_RTR_READ;
	return rtr & IRD_EMPTY ? MPA_RTR_EMPTY : MPA_RTR_WRITE;
}

/* IRD and ORD of this end; `ird` and `ord` are what it wants. False: the peer wants too much. */
static bool agree_depths(struct mpa_startup *startup, uint16_t ird, uint16_t ord)
{
	struct mpa_agreed *agreed = &startup->agreed;

	agreed->ird = least(ird, MPA_IRD_MAX);
	agreed->ord = ord;
	if (!startup->peer_negotiates)
		return true;
	if (startup->peer_ird != MPA_RD_MAX)
		agreed->ord = least(ord, startup->peer_ird);
	if (!is_initiator(startup) || startup->peer_ord == MPA_RD_MAX ||
	    startup->peer_ord <= agreed->ird)
		return true;
	agreed->ird = startup->peer_ord;
	return startup->peer_ord <= MPA_IRD_MAX;
}

/* The last bytes of the reply's private data. False: there are too few. */
static bool take_place(struct mpa_startup *startup)
{
	if (startup->private_bytes < SAME_HOST_PLACE_BYTES)
		return false;
	startup->private_bytes -= SAME_HOST_PLACE_BYTES;
	memcpy(startup->place, startup->private_data + startup->private_bytes,
	       SAME_HOST_PLACE_BYTES);
	return true;
}

static void on_reply(struct mpa_startup *startup)
{
	struct mpa_agreed *agreed = &startup->agreed;
	uint8_t flags = (uint8_t)startup->flags;

	if (flags & FLAG_REJECT) {
		startup->state = MPA_REJECTED;
		return;
	}
	if (startup->in[AT_REVISION] != startup->revision ||
	    startup->peer_negotiates != (startup->revision == 2)) {
		fail(startup, CAUSE_MPA_FRAME);
		return;
	}
	agreed->crc = startup->offer.crc || flags & FLAG_CRC;
	agreed->sends_markers = flags & FLAG_MARKERS;
	agreed->gets_markers = startup->offer.markers;
	agreed->extensions = startup->offer.extensions && flags & FLAG_TAKES_EXT;
	agreed->same_host =
		agreed->extensions && startup->offer.same_host && flags & FLAG_TELLS_PLACE;
	if (agreed->same_host && !take_place(startup)) {
		fail(startup, CAUSE_MPA_FRAME);
		return;
	}
	agreed->rtr = startup->offer.peer_to_peer ? choose_rtr(startup) : MPA_RTR_NONE;
	if (!agree_depths(startup, startup->offer.ird, startup->offer.ord) ||
	    (agreed->sends_markers && startup->offer.refuse_markers)) {
		fail(startup, CAUSE_MPA_OPTIONS);
		return;
	}
	startup->state = MPA_ESTABLISHED;
}

size_t mpa_startup_wanted(const struct mpa_startup *startup)
{
	return startup->state == MPA_WAITING ? frame_bytes(startup) - startup->in_bytes : 0;
}

size_t mpa_startup_feed(struct mpa_startup *startup, const void *bytes, size_t count)
{
	size_t taken = 0;

	while (startup->state == MPA_WAITING) {
		size_t wanted = mpa_startup_wanted(startup);
		size_t n = count - taken < wanted ? count - taken : wanted;
		bool was_short = startup->in_bytes < MPA_FRAME_BYTES;

		if (n)
			memcpy(startup->in + startup->in_bytes, (const uint8_t *)bytes + taken, n);
		taken += n;
		startup->in_bytes += (uint16_t)n;
		if (n < wanted)
			break;
		if (was_short && (!check_frame(startup) || mpa_startup_wanted(startup)))
			continue;
		if (!take_private(startup))
			break;
		if (is_initiator(startup))
			on_reply(startup);
		else
			startup->state = MPA_ASKED;
	}
	return taken;
}

/* Flags of a reply. */
static uint8_t reply_flags(const struct mpa_startup *startup)
{
	return (uint8_t)(wanted_flags(&startup->offer) | (startup->flags & FLAG_CRC) |
			 (startup->peer_negotiates ? FLAG_ENHANCED : 0));
}

int mpa_startup_reject(struct mpa_startup *startup, const void *private_data, size_t bytes)
{
	int error;

	startup->revision = startup->in[AT_REVISION];
	error = make_frame(startup, reply_key, reply_flags(startup) | FLAG_REJECT,
			   startup->agreed.ird, startup->agreed.ord, private_data, bytes);
	if (!error)
		startup->state = MPA_REJECTED;
	return error;
}

bool mpa_startup_asks_place(const struct mpa_startup *startup)
{
	return startup->offer.extensions && startup->flags & FLAG_HAS_EXT &&
	       startup->flags & FLAG_ASKS_PLACE;
}

void mpa_startup_offer_place(struct mpa_startup *startup, const uint8_t *place)
{
	startup->offer.same_host = place != NULL;
	if (place)
		memcpy(startup->place, place, SAME_HOST_PLACE_BYTES);
}

/* Behind the private data of a reply. -EINVAL: there is no room. */
static int add_place(struct mpa_startup *startup)
{
	uint16_t length = get16(startup->out + AT_LENGTH);

	if (length > MPA_PRIVATE_MAX - SAME_HOST_PLACE_BYTES)
		return -EINVAL;
	put16(startup->out + AT_LENGTH, (uint16_t)(length + SAME_HOST_PLACE_BYTES));
	memcpy(startup->out + startup->out_bytes, startup->place, SAME_HOST_PLACE_BYTES);
	startup->out_bytes += SAME_HOST_PLACE_BYTES;
	return 0;
}

int mpa_startup_accept(struct mpa_startup *startup, uint16_t ird, uint16_t ord,
		       const void *private_data, size_t bytes)
{
	struct mpa_agreed *agreed = &startup->agreed;
	uint8_t flags = reply_flags(startup);
	uint16_t ird_bits = 0, ord_bits = 0;
	int error;

	if (startup->flags & FLAG_MARKERS && startup->offer.refuse_markers) {
		mpa_startup_reject(startup, NULL, 0);
		return -ENOTSUP;
	}
	startup->revision = startup->in[AT_REVISION];
	agree_depths(startup, least(ird, startup->offer.ird), least(ord, startup->offer.ord));
	agreed->crc = flags & FLAG_CRC;
	agreed->sends_markers = startup->flags & FLAG_MARKERS;
	agreed->gets_markers = startup->offer.markers;
	agreed->extensions = startup->offer.extensions && startup->flags & FLAG_HAS_EXT;
	agreed->same_host = startup->offer.same_host && mpa_startup_asks_place(startup);
	agreed->rtr = choose_rtr(startup);
	if (agreed->extensions)
		flags |= FLAG_TAKES_EXT;
	if (agreed->same_host)
		flags |= FLAG_TELLS_PLACE;
	if (agreed->rtr != MPA_RTR_NONE)
		ird_bits = IRD_PEER_TO_PEER;
	if (agreed->rtr == MPA_RTR_EMPTY)
		ird_bits |= IRD_EMPTY;
	if (agreed->rtr == MPA_RTR_WRITE)
		ord_bits = ORD_WRITE;
	if (agreed->rtr == MPA_RTR_READ) {
		ord_bits = ORD_READ;
		if (!agreed->ird)
			agreed->ird = 1;
	}
	error = make_frame(startup, reply_key, flags, agreed->ird | ird_bits,
			   agreed->ord | ord_bits, private_data, bytes);
	if (!error && agreed->same_host)
		error = add_place(startup);
	if (!error)
		startup->state = MPA_ESTABLISHED;
	return error;
}

uint32_t mpa_mulpdu(uint32_t mss, bool markers)
{
	uint32_t overhead = FPDU_LENGTH_BYTES + FPDU_CRC_BYTES +
			    (markers ? 4 * (mss / MARKER_INTERVAL + 1) : 0);
	/* an FPDU is a multiple of 4 bytes, so no pad is needed: 2 more than a multiple */
	uint32_t room = mss > overhead ? mss - overhead : 0;

	room -= (room + FPDU_LENGTH_BYTES) % 4 < room ? (room + FPDU_LENGTH_BYTES) % 4 : 0;
	return room < 128 ? 128 : room > FPDU_ULPDU_MAX ? FPDU_ULPDU_MAX : room;
}
