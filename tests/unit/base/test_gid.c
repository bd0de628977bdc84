/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka's header needs what is above */
#include <arpa/inet.h>
#include <cmocka.h>

#include "base/gid.h"

/* What each address is. */
static const struct row {
	const char *text;
	bool v4, multicast, link_local, scoped, unicast, loopback, unspecified;
} rows[] = {
	{ "192.0.2.1", .v4 = true, .unicast = true },
	{ "127.0.0.2", .v4 = true, .unicast = true, .loopback = true },
	{ "0.0.0.0", .v4 = true, .unspecified = true },
	{ "224.0.0.1", .v4 = true, .multicast = true },
	{ "255.255.255.255", .v4 = true },
	{ "2001:db8::1", .unicast = true },
	{ "::1", .unicast = true, .loopback = true },
	{ "::", .unspecified = true },
	{ "fe80::1", .link_local = true, .scoped = true, .unicast = true },
	{ "ff02::1", .multicast = true, .scoped = true },
	{ "ff0e::1", .multicast = true },
	{ "ff0e::ffff:ef00:1", .multicast = true },
};

static void from_text(const char *text, uint8_t gid[GID_BYTES])
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1)
		gid_from_v4(&v4, gid);
	else
		assert_int_equal(inet_pton(AF_INET6, text, gid), 1);
}

static void test_kinds(void **state)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		uint8_t gid[GID_BYTES];

		from_text(r->text, gid);
		assert_int_equal(gid_is_v4(gid), r->v4);
		assert_int_equal(gid_is_multicast(gid), r->multicast);
		assert_int_equal(gid_is_link_local(gid), r->link_local);
		assert_int_equal(gid_is_scoped(gid), r->scoped);
		assert_int_equal(gid_is_unicast(gid), r->unicast);
		assert_int_equal(gid_is_loopback(gid), r->loopback);
		assert_int_equal(gid_is_unspecified(gid), r->unspecified);
	}
}

static void test_there_and_back(void **state)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t gid[GID_BYTES], back[GID_BYTES];
		union gid_sockaddr address, other;
		char text[GID_TEXT_BYTES];

		from_text(rows[i].text, gid);
		assert_int_equal(gid_to_sockaddr(gid, 7, 4791, &address),
				 rows[i].v4 ? sizeof(address.v4) : sizeof(address.v6));
		assert_int_equal(gid_sockaddr_port(&address), 4791);
		if (!rows[i].v4)
			assert_int_equal(address.v6.sin6_scope_id, rows[i].scoped ? 7 : 0);
		gid_from_sockaddr(&address.any, back);
		assert_memory_equal(gid, back, GID_BYTES);
		assert_string_equal(gid_text(gid, text), rows[i].text);
		gid_to_sockaddr(gid, 7, 4792, &other);
		assert_true(gid_sockaddr_equal(&address, &address));
		assert_false(gid_sockaddr_equal(&address, &other));
	}
}

static void test_spellings_of_a_group(void **state)
{
	uint8_t linux_gid[GID_BYTES], other[GID_BYTES], kept[GID_BYTES];

	from_text("239.0.0.1", linux_gid);
	from_text("ff0e::ffff:239.0.0.1", other);
	gid_canonical(kept, other);
	assert_memory_equal(kept, linux_gid, GID_BYTES);
	gid_canonical(kept, linux_gid);
	assert_memory_equal(kept, linux_gid, GID_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_spellings_of_a_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
