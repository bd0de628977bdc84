/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SO_KEEPALIVE of a listener, which accepted streams inherit: a request that fails while keepalives
 * are due holds up nobody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <unistd.h>

#include "pair.h"

#define IDLE_S 1

static _Thread_local bool lacks_descriptors;

/*
 * librdmacm calls this one, with the listener's lock held. A keepalive falls due meanwhile, and its
 * thread waits for that lock.
 */
__attribute__((visibility("default"))) struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *(*real)(struct ibv_context *) =
		(struct ibv_comp_channel * (*)(struct ibv_context *))
			dlsym(RTLD_NEXT, "ibv_create_comp_channel");

	if (!lacks_descriptors)
		return real(context);
	usleep(1500 * MS * IDLE_S);
	errno = EMFILE;
	return NULL;
}

static int accept_one(int listener, int client)
{
	struct pollfd polls[] = { { .fd = listener, .events = POLLIN }, { .fd = client } };

	while (!(polls[0].revents & POLLIN))
		assert_true(rpoll(polls, 2, LONG_MS) > 0);
	return raccept(listener, NULL, NULL);
}

static void request_that_fails(void **state)
{
	struct sockaddr_in addr;
	int listener = make_listener(&addr), idle_s = IDLE_S, on = 1, client, accepted;

	assert_return_code(rsetsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(int)),
			   errno);
	assert_return_code(rsetsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(int)),
			   errno);
	alarm(LONG_MS / 1000);
	client = start_connecting(&addr);
	lacks_descriptors = true;
	assert_int_equal(accept_one(listener, client), -1);
	lacks_descriptors = false;
	rclose(client);

	client = start_connecting(&addr);
	accepted = accept_one(listener, client);
	assert_return_code(accepted, errno);
	wait_for(client, POLLOUT);
	rclose(client);
	rclose(accepted);
	rclose(listener);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
