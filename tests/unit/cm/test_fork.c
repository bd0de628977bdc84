/* SPDX-License-Identifier: BSD-2-Clause */
/* Forks beside threads that use this library: the child can use it, too, and the parent goes on. */
#include "allocator.h"
#include "harness.h"
#include "pairs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rdma_cm_id *make_listener(struct rdma_event_channel *channel)
{
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 4));
	return id;
}

static atomic_bool busy_ends;

/* Uses all locks of this library all the time. */
static void *be_busy(void *unused)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);

	while (!busy_ends) {
		struct ibv_context **devices = rdma_get_devices(NULL);
		struct rdma_cm_id *id;

		CHECK(devices);
		rdma_free_devices(devices);
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
		expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(!rdma_destroy_id(id));
	}
	rdma_destroy_event_channel(channel);
	return NULL;
}

static void use_library(struct rdma_cm_id *inherited)
{
	struct rdma_event_channel *channel;
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_cm_id *id;

	CHECK((channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_destroy_id(inherited));
}

/* The child's status. A child that does not end is killed, also if its parent ends first. */
static int run_child(struct rdma_cm_id *inherited)
{
	pid_t parent = getpid(), child = allocator_fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			use_library(inherited);
		_exit(0);
	}
	/* Not alarm in the child: it may wait where all signals are blocked. */
	if (!wait_for_end(child, PATIENCE_MS))
		kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static void test_forks_beside_busy_threads(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *inherited = make_listener(channel), *second;
	pthread_t threads[3];
	struct sockaddr_in at;
	struct pair pair;
	int status = 0;

	/* With QPs, and by wire with a UDP port, which the child has to close. */
	pair_open(&pair, RDMA_PS_TCP);
	pair_connect(&pair);
	busy_ends = false;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, be_busy, NULL));
	for (int i = 0; i < 60 && !status; i++)
		status = run_child(inherited);
	busy_ends = true;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
	if (WIFSIGNALED(status))
		print_error("a child was ended by signal %d\n", WTERMSIG(status));
	assert_int_equal(status, 0);
	pair_close(&pair);
	/* The child's end of it is not ours: it listens. */
	at = pairs_v4(INADDR_LOOPBACK, ntohs(rdma_get_src_port(inherited)));
	CHECK(!rdma_create_id(channel, &second, NULL, RDMA_PS_TCP));
	CHECK(rdma_bind_addr(second, (struct sockaddr *)&at) && errno == EADDRINUSE);
	CHECK(!rdma_destroy_id(second) && !rdma_destroy_id(inherited));
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_forks_beside_busy_threads, harness_setup,
						harness_teardown),
	};

	return cmocka_run_group_tests_name("cm fork", tests, NULL, NULL);
}
