/* SPDX-License-Identifier: BSD-2-Clause */
/* MPA's start-up: frames as the RFCs and siw have them, both ends, cut at each byte. */
#include "iwarp/mpa_startup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct mpa_startup initiator, responder;

static const struct mpa_offer plain = { .revision = 2, .ird = 8, .ord = 4 };

/* Sends `out` of one end to the other in pieces of `piece` bytes; what is left over is not taken.
 */
static void pass(struct mpa_startup *from, struct mpa_startup *to, size_t piece)
{
	uint8_t bytes[MPA_FRAME_MAX + 4] = { 0 };
	size_t at = 0;

	memcpy(bytes, from->out, from->out_bytes);
	while (at < from->out_bytes) {
		size_t n = from->out_bytes - at < piece ? from->out_bytes - at : piece;

		assert_int_equal(to->state, MPA_WAITING);
		assert_in_range(mpa_startup_wanted(to), 1, from->out_bytes - at);
		assert_int_equal(mpa_startup_feed(to, bytes + at, n), n);
		at += n;
	}
	assert_int_not_equal(to->state, MPA_WAITING);
	assert_int_equal(mpa_startup_feed(to, bytes, 4), 0);
	assert_int_equal(mpa_startup_wanted(to), 0);
}

static void establish(const struct mpa_offer *call, const struct mpa_offer *answer, size_t piece)
{
	assert_int_equal(mpa_startup_call(&initiator, call, "hello", 5), 0);
	mpa_startup_answer(&responder, answer);
	pass(&initiator, &responder, piece);
	assert_int_equal(responder.state, MPA_ASKED);
	assert_int_equal(responder.private_bytes, 5);
	assert_memory_equal(responder.private_data, "hello", 5);
	assert_int_equal(mpa_startup_accept(&responder, MPA_IRD_MAX, MPA_IRD_MAX, "welcome!", 8),
			 0);
	assert_int_equal(responder.state, MPA_ESTABLISHED);
	pass(&responder, &initiator, piece);
	assert_int_equal(initiator.state, MPA_ESTABLISHED);
	assert_int_equal(initiator.private_bytes, 8);
	assert_memory_equal(initiator.private_data, "welcome!", 8);
	assert_true(initiator.agreed.initiator && !responder.agreed.initiator);
	assert_int_equal(initiator.agreed.crc, responder.agreed.crc);
	assert_int_equal(initiator.agreed.rtr, responder.agreed.rtr);
	assert_int_equal(initiator.agreed.extensions, responder.agreed.extensions);
	assert_int_equal(initiator.agreed.sends_markers, responder.agreed.gets_markers);
	assert_int_equal(initiator.agreed.gets_markers, responder.agreed.sends_markers);
}

static void test_frames(void **state)
{
	static const uint8_t request[] = "MPA ID Req Frame\x50\x02\x00\x09\xc0\x08\xc0\x04hello";
	static const uint8_t reply[] = "MPA ID Rep Frame\x50\x02\x00\x0c\x80\x10\x80\x08welcome!";
	struct mpa_offer offer = plain;

	offer.crc = offer.peer_to_peer = true;
	establish(&offer, &(struct mpa_offer){ .ird = 16, .ord = 16 }, 1000);
	assert_int_equal(initiator.out_bytes, sizeof(request) - 1);
	assert_memory_equal(initiator.out, request, sizeof(request) - 1);
	assert_int_equal(responder.out_bytes, sizeof(reply) - 1);
	assert_memory_equal(responder.out, reply, sizeof(reply) - 1);
}

static void test_cut_anywhere(void **state)
{
	for (size_t piece = 1; piece < 30; piece++)
		establish(&plain, &plain, piece);
}

static void test_depths(void **state)
{
	static const struct {
		uint16_t ird, ord, peer_ird, peer_ord; /* wanted: initiator, responder */
		uint16_t ord_here, ord_there;	       /* agreed */
	} rows[] = {
		{ 8, 4, 8, 8, 4, 8 },
		{ 1, 16, 2, 16, 2, 1 },
		{ 0, 0, 16, 16, 0, 0 },
		{ 16, 16, 0, 0, 0, 0 },
		{ MPA_RD_MAX, 9, 16, 16, 9, 16 },
		{ MPA_RD_MAX, 9, 16, MPA_IRD_MAX, 9, MPA_IRD_MAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct mpa_offer here = { .revision = 2, .ird = rows[i].ird, .ord = rows[i].ord };
		struct mpa_offer there = { .ird = rows[i].peer_ird, .ord = rows[i].peer_ord };

		establish(&here, &there, 7);
		assert_int_equal(initiator.agreed.ord, rows[i].ord_here);
		assert_int_equal(responder.agreed.ord, rows[i].ord_there);
		assert_true(initiator.agreed.ord <= responder.agreed.ird);
		assert_true(responder.agreed.ord <= initiator.agreed.ird);
	}
}

static void test_options(void **state)
{
	for (unsigned bits = 0; bits < 256; bits++) {
		struct mpa_offer here = { .revision = 2,
					  .ird = 4,
					  .ord = 4,
					  .crc = bits & 1,
					  .markers = bits & 2,
					  .extensions = bits & 4,
					  .peer_to_peer = bits & 8 };
		struct mpa_offer there = { .ird = 4,
					   .ord = 4,
					   .crc = bits & 16,
					   .markers = bits & 32,
					   .extensions = bits & 64 };

		establish(&here, &there, 1000);
		assert_int_equal(initiator.agreed.crc, here.crc || there.crc);
		assert_int_equal(initiator.agreed.gets_markers, here.markers);
		assert_int_equal(initiator.agreed.sends_markers, there.markers);
		assert_int_equal(initiator.agreed.extensions, here.extensions && there.extensions);
		assert_int_equal(initiator.agreed.rtr,
				 here.peer_to_peer ? MPA_RTR_WRITE : MPA_RTR_NONE);
	}
}

static void test_revision_1(void **state)
{
	struct mpa_offer offer = plain;

	offer.revision = 1;
	offer.peer_to_peer = false;
	establish(&offer, &plain, 3);
	assert_int_equal(initiator.out_bytes, 25);
	assert_int_equal(responder.out[17], 1);
	assert_false(initiator.peer_negotiates || responder.peer_negotiates);
	assert_int_equal(initiator.agreed.ord, 4);
}

/* siw echoes all flags of a request: that is no agreement to RFC 7306. */
static void test_siw_echoes_flags(void **state)
{
	struct mpa_offer offer = plain;
	uint8_t reply[24] = "MPA ID Rep Frame";

	offer.extensions = true;
	mpa_startup_call(&initiator, &offer, NULL, 0);
	memcpy(reply + 16, initiator.out + 16, 8);
	assert_int_equal(mpa_startup_feed(&initiator, reply, sizeof(reply)), sizeof(reply));
	assert_int_equal(initiator.state, MPA_ESTABLISHED);
	assert_false(initiator.agreed.extensions);
}

/* What a responder of another make chooses as the first FPDU. */
static void test_rtr_of_the_reply(void **state)
{
	static const struct {
		uint16_t ird, ord;
		enum mpa_rtr rtr;
	} rows[] = { { 0x8004, 0x8004, MPA_RTR_WRITE },
		     { 0x8004, 0x4004, MPA_RTR_READ },
		     { 0xc004, 0x0004, MPA_RTR_EMPTY },
		     { 0x0004, 0x8004, MPA_RTR_NONE } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint8_t reply[24] = "MPA ID Rep Frame\x10\x02";
		struct mpa_offer offer = plain;

		offer.peer_to_peer = true;
		mpa_startup_call(&initiator, &offer, NULL, 0);
		reply[19] = 4;
		reply[20] = (uint8_t)(rows[i].ird >> 8);
		reply[21] = (uint8_t)rows[i].ird;
		reply[22] = (uint8_t)(rows[i].ord >> 8);
		reply[23] = (uint8_t)rows[i].ord;
		mpa_startup_feed(&initiator, reply, sizeof(reply));
		assert_int_equal(initiator.state, MPA_ESTABLISHED);
		assert_int_equal(initiator.agreed.rtr, rows[i].rtr);
	}
}

/* An initiator takes as many READs as the responder wants, up to its own limit. */
static void test_more_reads_than_a_qp_takes(void **state)
{
	struct mpa_offer many = plain;

	for (uint16_t ord = MPA_IRD_MAX; ord <= MPA_IRD_MAX + 1; ord++) {
		many.ord = ord;
		mpa_startup_call(&initiator, &(struct mpa_offer){ .revision = 2, .ird = 99 }, NULL,
				 0);
		mpa_startup_answer(&responder, &many);
		pass(&initiator, &responder, 100);
		assert_int_equal(mpa_startup_accept(&responder, 4, ord, NULL, 0), 0);
		pass(&responder, &initiator, 100);
		if (ord <= MPA_IRD_MAX) {
			assert_int_equal(initiator.state, MPA_ESTABLISHED);
			assert_int_equal(initiator.agreed.ird, ord);
			continue;
		}
		assert_int_equal(initiator.state, MPA_FAILED);
		assert_int_equal(initiator.cause, CAUSE_MPA_OPTIONS);
	}
}

static void test_reject(void **state)
{
	mpa_startup_call(&initiator, &plain, NULL, 0);
	mpa_startup_answer(&responder, &plain);
	pass(&initiator, &responder, 100);
	assert_int_equal(mpa_startup_reject(&responder, "no", 2), 0);
	assert_int_equal(responder.state, MPA_REJECTED);
	pass(&responder, &initiator, 9);
	assert_int_equal(initiator.state, MPA_REJECTED);
	assert_memory_equal(initiator.private_data, "no", 2);
}

static void test_markers_refused(void **state)
{
	struct mpa_offer offer = plain, refuses = plain;

	offer.markers = refuses.refuse_markers = true;
	mpa_startup_call(&initiator, &offer, NULL, 0);
	mpa_startup_answer(&responder, &refuses);
	pass(&initiator, &responder, 100);
	assert_int_equal(mpa_startup_accept(&responder, 4, 4, NULL, 0), -ENOTSUP);
	pass(&responder, &initiator, 100);
	assert_int_equal(initiator.state, MPA_REJECTED);
	/* and an initiator that is asked for them */
	mpa_startup_call(&initiator, &refuses, NULL, 0);
	mpa_startup_answer(&responder, &offer);
	pass(&initiator, &responder, 100);
	assert_int_equal(mpa_startup_accept(&responder, 4, 4, NULL, 0), 0);
	pass(&responder, &initiator, 100);
	assert_int_equal(initiator.state, MPA_FAILED);
	assert_int_equal(initiator.cause, CAUSE_MPA_OPTIONS);
}

static void test_private_data_of_any_length(void **state)
{
	static const uint8_t data[MPA_PRIVATE_MAX + 1] = { 1, 2, 3 };

	for (size_t bytes = 0; bytes <= MPA_PROGRAM_MAX; bytes++) {
		assert_int_equal(mpa_startup_call(&initiator, &plain, data, bytes), 0);
		mpa_startup_answer(&responder, &plain);
		pass(&initiator, &responder, 100);
		assert_int_equal(responder.private_bytes, bytes);
		assert_memory_equal(responder.private_data, data, bytes);
	}
	assert_int_equal(mpa_startup_call(&initiator, &plain, data, MPA_PROGRAM_MAX + 1), -EINVAL);
	assert_int_equal(mpa_startup_accept(&responder, 1, 1, data, MPA_PROGRAM_MAX + 1), -EINVAL);
}

static void test_bad_frames(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} rows[] = { { 0, 'X' }, { 9, 'p' }, { 17, 3 }, { 18, 2 }, { 18, 0xff }, { 19, 3 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		mpa_startup_call(&initiator, &plain, NULL, 0);
		initiator.out[rows[i].at] = rows[i].value;
		if (rows[i].at == 18 && rows[i].value == 2)
			initiator.out[19] = 1; /* 513 bytes */
		mpa_startup_answer(&responder, &plain);
		mpa_startup_feed(&responder, initiator.out, initiator.out_bytes);
		assert_int_equal(responder.state, MPA_FAILED);
		assert_int_equal(responder.cause, CAUSE_MPA_FRAME);
	}
	/* a request is no reply */
	mpa_startup_call(&initiator, &plain, NULL, 0);
	mpa_startup_feed(&initiator, initiator.out, initiator.out_bytes);
	assert_int_equal(initiator.state, MPA_FAILED);
}

static void test_mulpdu(void **state)
{
	for (uint32_t mss = 0; mss < 70000; mss++) {
		uint32_t mulpdu = mpa_mulpdu(mss, false);

		assert_in_range(mulpdu, 128, 65535);
		assert_true(mulpdu == 128 || mulpdu == 65535 ||
			    2 + mulpdu + (-(mulpdu + 2) & 3) + 4 <= mss);
	}
	assert_int_equal(mpa_mulpdu(1448, false), 1442);
	assert_int_equal(mpa_mulpdu(1448, true), 1430);
}

static const struct mpa_offer neighbour = {
	.revision = 2, .extensions = true, .same_host = true, .ird = 8, .ord = 4
};
static const struct same_host_place server = { .qpn = 0x14001, .cookie = 0x1122334455667788 };

/* The program's private data ends before the place. */
static void test_same_host(void **state)
{
	uint8_t place[SAME_HOST_PLACE_BYTES];
	struct same_host_place got;

	for (size_t piece = 1; piece < 90; piece += 8) {
		assert_int_equal(mpa_startup_call(&initiator, &neighbour, "hello", 5), 0);
		mpa_startup_answer(&responder, &(struct mpa_offer){ .extensions = true });
		pass(&initiator, &responder, piece);
		assert_true(mpa_startup_asks_place(&responder));
		same_host_put_place(place, &server);
		mpa_startup_offer_place(&responder, place);
		assert_int_equal(mpa_startup_accept(&responder, 16, 16, "welcome!", 8), 0);
		pass(&responder, &initiator, piece);
		assert_true(initiator.agreed.same_host && responder.agreed.same_host);
		assert_int_equal(initiator.private_bytes, 8);
		assert_memory_equal(initiator.private_data, "welcome!", 8);
		same_host_get_place(initiator.place, &got);
		assert_int_equal(got.qpn, server.qpn);
		assert_int_equal(got.cookie, server.cookie);
	}
}

/* Either end may not see the other as of its host, or be older. */
static void test_not_of_same_host(void **state)
{
	struct mpa_offer without = neighbour;

	without.same_host = false;
	establish(&neighbour, &without, 1000);
	assert_false(initiator.agreed.same_host || responder.agreed.same_host);
	establish(&without, &neighbour, 1000);
	assert_false(initiator.agreed.same_host || responder.agreed.same_host);
	without = neighbour;
	without.extensions = false;
	establish(&without, &neighbour, 1000);
	assert_false(initiator.agreed.same_host || responder.agreed.same_host);
}

/* An echo of the request's flags, as of siw, is no answer; and a place needs its bytes. */
static void test_reply_without_a_place(void **state)
{
	assert_int_equal(mpa_startup_call(&initiator, &neighbour, NULL, 0), 0);
	mpa_startup_answer(&responder, &plain);
	pass(&initiator, &responder, 1000);
	assert_int_equal(mpa_startup_accept(&responder, 1, 1, "0123456789", 10), 0);
	responder.out[16] |= initiator.out[16];
	pass(&responder, &initiator, 1000);
	assert_int_equal(initiator.state, MPA_ESTABLISHED);
	assert_false(initiator.agreed.same_host);
	assert_int_equal(initiator.private_bytes, 10);

	assert_int_equal(mpa_startup_call(&initiator, &neighbour, NULL, 0), 0);
	responder.out[16] |= 0x09;
	pass(&responder, &initiator, 1000);
	assert_int_equal(initiator.state, MPA_FAILED);
}

static void test_frame_of_the_initiator(void **state)
{
	uint8_t frame[SAME_HOST_FRAME_BYTES];
	struct same_host_place got;
	bool shared;

	same_host_put_frame(frame, &server);
	assert_true(same_host_get_frame(frame, &shared, &got));
	assert_true(shared);
	assert_int_equal(got.qpn, server.qpn);
	assert_int_equal(got.cookie, server.cookie);
	same_host_put_frame(frame, NULL);
	assert_true(same_host_get_frame(frame, &shared, &got));
	assert_false(shared);
	for (unsigned at = 0; at < 8; at++) {
		frame[at]++;
		assert_false(same_host_get_frame(frame, &shared, &got));
		frame[at]--;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_depths),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_revision_1),
		cmocka_unit_test(test_siw_echoes_flags),
		cmocka_unit_test(test_rtr_of_the_reply),
		cmocka_unit_test(test_more_reads_than_a_qp_takes),
		cmocka_unit_test(test_reject),
		cmocka_unit_test(test_markers_refused),
		cmocka_unit_test(test_private_data_of_any_length),
		cmocka_unit_test(test_bad_frames),
		cmocka_unit_test(test_mulpdu),
		cmocka_unit_test(test_same_host),
		cmocka_unit_test(test_not_of_same_host),
		cmocka_unit_test(test_reply_without_a_place),
		cmocka_unit_test(test_frame_of_the_initiator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
