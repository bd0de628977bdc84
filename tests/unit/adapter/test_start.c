/* SPDX-License-Identifier: BSD-2-Clause */
/* An adapter that cannot start leaves nothing. verbatimd is replaced at link time (--wrap). */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/adapter.h"
#include "adapter/peers.h"
#include "adapter/port_table.h"
#include "ctl/client.h"
#include "shm/doorbell.h"
#include "tcp/control.h"
#include "tcp/streams.h"

int __wrap_ctl_connect(struct ctl_client **out, int arena_fd, int wake_fd, int heap_fd,
		       const char *comm, char *why, size_t why_len);
int __wrap_ctl_connect(struct ctl_client **out, int arena_fd, int wake_fd, int heap_fd,
		       const char *comm, char *why, size_t why_len)
{
	static char client;

	/* peers get both: one that seals the heap against writes would stop all migration */
	assert_int_equal(fcntl(heap_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(arena_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
	assert_int_equal(errno, EPERM);
	*out = (struct ctl_client *)&client;
	return 0;
}

unsigned __wrap_ctl_slot(const struct ctl_client *c);
unsigned __wrap_ctl_slot(const struct ctl_client *c)
{
	return 1;
}

void __wrap_ctl_close(struct ctl_client *c);
void __wrap_ctl_close(struct ctl_client *c)
{
}

/* The last step before the progress thread. */
int __wrap_peers_init(struct ctl_client *ctl, uint32_t slot, void *arena, int wake_fd);
int __wrap_peers_init(struct ctl_client *ctl, uint32_t slot, void *arena, int wake_fd)
{
	assert_non_null(doorbell_own);
	assert_int_not_equal(tcp_control_epoll(), -1);
	return -ENOMEM;
}

static void a_start_that_fails_leaves_nothing_that_a_child_would_share(void **state)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(adapter_start(), ENOMEM);
		assert_int_equal(port_table_epoll(), -1);
		assert_int_equal(streams_epoll(), -1);
		assert_int_equal(tcp_control_epoll(), -1);
		assert_null(doorbell_own);
		assert_null(doorbell_header);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_that_fails_leaves_nothing_that_a_child_would_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
