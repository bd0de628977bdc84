/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of cmserver/ and of hash tables: communication IDs, identifiers, channels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../broken.h"
#include "cmserver/cm.h"
#include "cmserver/cm_channel.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_state.h"
#include "daemon/client.h"
#include "daemon/daemon.h"

#define IDS 300

static void test_table(void **state)
{
	struct comm_id ids[IDS];
	struct comm_ids n;

	assert_int_equal(comm_ids_init(&n), 0);
	for (unsigned i = 0; i < IDS; i++)
		comm_ids_add(&n, &ids[i]);
	assert_broken(n.table.count++, table_check(&n.table));
	assert_broken(n.table.bucket_count--, table_check(&n.table));
	assert_broken(ids[7].entry.hash++, table_check(&n.table));
	assert_broken(list_init(&ids[7].entry.in_bucket), table_check(&n.table));
	assert_broken(ids[7].value = 0, comm_ids_check(&n));
	assert_broken(ids[7].value = ids[8].value, comm_ids_check(&n));
	assert_broken(n.secret.key[0]++, comm_ids_check(&n));
	comm_ids_fini(&n);
}

/* Runs the check so often that it has looked at all. */
static void check_cm(const struct daemon *d)
{
	for (unsigned i = 0; i < 1000; i++)
		cm_check(d);
}

static void test_connection_management(void **state)
{
	static struct cm cm;
	struct daemon d = { .cm = &cm };
	struct cm_client cc = { .cm = &cm, .id_count = 1, .channel_count = 1 };
	struct client c = { .daemon = &d, .cm = &cc };
	struct cm_channel ch = { .owner = &cc };
	struct cm_id id = { .owner = &cc, .channel = &ch };

	assert_int_equal(comm_ids_init(&cm.ids), 0);
	assert_int_equal(comm_ids_init(&cm.channels), 0);
	assert_int_equal(comm_ids_init(&cm.connections), 0);
	assert_int_equal(table_init(&cm.by_remote), 0);
	assert_int_equal(table_init(&cm.by_qp), 0);
	list_init(&d.clients);
	list_init(&cc.ids);
	list_init(&cc.channels);
	list_init(&ch.events);
	list_init(&id.binding.in_bucket);
	list_add_tail(&d.clients, &c.in_daemon);
	list_add_tail(&cc.channels, &ch.in_client);
	list_add_tail(&cc.ids, &id.in_client);
	comm_ids_add(&cm.channels, &ch.comm_id);
	comm_ids_add(&cm.ids, &id.comm_id);
	cm.channel_count = 1;
	assert_broken(cc.id_count = 0, check_cm(&d));
	assert_broken(cc.id_count = 2, check_cm(&d));
	assert_broken(cm.channel_count = 2, check_cm(&d));
	assert_broken(cc.event_count = 1, check_cm(&d));
	assert_broken(id.binding.bound = true, check_cm(&d));
	assert_broken(id.backlog_left = 1, check_cm(&d));
	assert_broken(id.owner = NULL, check_cm(&d));
	assert_broken(comm_ids_remove(&cm.ids, &id.comm_id), check_cm(&d));
	comm_ids_fini(&cm.ids);
	comm_ids_fini(&cm.channels);
	comm_ids_fini(&cm.connections);
	table_fini(&cm.by_remote);
	table_fini(&cm.by_qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_connection_management),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
