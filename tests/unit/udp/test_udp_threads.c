/* SPDX-License-Identifier: BSD-2-Clause */
/* Several threads send through one port while two receive from another: each packet once, whole. */
#include <errno.h>
#include <netinet/in.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "net.h"
#include "base/arena.h"
#include "udp/udp.h"
#include "base/gid.h"

#define SENDERS	  3
#define RECEIVERS 2
#define BURSTS	  200
#define BURST	  20
#define WINDOW	  40 /* bursts under way, of all: the buffer takes them */

static struct wire_port *from, *to;
static uint8_t to_gid[WIRE_GID_BYTES];
static uint8_t seen[SENDERS][BURSTS * BURST];
static _Atomic unsigned received, inside, wrong;

/* The sender's number, the packet's number, and a payload that follows from them. */
static void on_arrival(const struct wire_arrival *a)
{
	uint32_t who, number;

	if (atomic_fetch_add(&inside, 1) != 0)
		atomic_fetch_add(&wrong, 1);
	memcpy(&who, a->bytes + 12, sizeof(who));
	memcpy(&number, a->bytes + 16, sizeof(number));
	if (who >= SENDERS || number >= BURSTS * BURST || seen[who][number]++)
		atomic_fetch_add(&wrong, 1);
	for (uint32_t i = 20; i < a->length; i++) {
		if (a->bytes[i] != (uint8_t)(who * 80 + number))
			atomic_fetch_add(&wrong, 1);
	}
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&received, 1);
}

static void *receive(void *arg)
{
	time_t end = time(NULL) + 30;

	while (atomic_load(&received) < SENDERS * BURSTS * BURST && time(NULL) < end)
		if (udp_receive(to, 0, on_arrival) < 0)
			usleep(10);
	return NULL;
}

static void *send_bursts(void *arg)
{
	static uint8_t payload[SENDERS][BURST][1000];
	uint32_t who = (uint32_t)(uintptr_t)arg;
	struct wire_flow flow = { .port = from, .sender = udp_sender(from, 0), .hop_limit = 64 };
	time_t end = time(NULL) + 30;

	memcpy(flow.remote, to_gid, sizeof(to_gid));
	for (uint32_t b = 0; b < BURSTS; b++) {
		struct wire_packet packets[BURST] = { 0 };
		unsigned sent;

		for (uint32_t i = 0; i < BURST; i++) {
			uint32_t number = b * BURST + i;
			struct wire_packet *p = &packets[i];

			p->header_bytes = 20;
			memcpy(p->header + 12, &who, sizeof(who));
			memcpy(p->header + 16, &number, sizeof(number));
			p->payload_bytes = b % 2 ? 1000 : 100;
			p->pieces = 1;
			p->piece[0] = (struct iovec){ payload[who][i], p->payload_bytes };
			memset(payload[who][i], (int)(who * 80 + number), p->payload_bytes);
		}
		if (udp_send(&flow, packets, BURST, &sent) != WIRE_SENT || sent != BURST)
			atomic_fetch_add(&wrong, 1);
		while ((b + 1) * BURST * SENDERS > atomic_load(&received) + WINDOW * BURST &&
		       time(NULL) < end)
			usleep(10);
	}
	return NULL;
}

static struct wire_port *open_port(unsigned which, uint8_t gid[WIRE_GID_BYTES])
{
	struct wire_port *port;

	net_address(false, which, gid);
	assert_int_equal(udp_open(net_bind(gid, WIRE_UDP_PORT), gid, 0, &port), 0);
	return port;
}

static void test_threads(void **state)
{
	pthread_t threads[SENDERS + RECEIVERS];
	uint8_t from_gid[WIRE_GID_BYTES];

	from = open_port(1, from_gid);
	to = open_port(2, to_gid);
	for (uintptr_t i = 0; i < SENDERS + RECEIVERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i < SENDERS ? send_bursts : receive, (void *)i),
				 0);
	for (int i = 0; i < SENDERS + RECEIVERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wrong, 0);
	assert_int_equal(received, SENDERS * BURSTS * BURST);
	udp_close(from);
	udp_close(to);
}

#define OPENERS 4
#define SLOTS	30

static struct wire_sender *opened[OPENERS][SLOTS];
static pthread_barrier_t start;

static void *open_senders(void *arg)
{
	uintptr_t who = (uintptr_t)arg;

	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		pthread_barrier_wait(&start);
		opened[who][slot] = udp_sender(from, slot << ARENA_QP_BITS | 1);
	}
	return NULL;
}

static unsigned count_fds(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Threads that ask for a sender at once get the same one, and no socket is left over. */
static void test_one_sender_for_all_threads(void **state)
{
	pthread_t threads[OPENERS];
	uint8_t gid[WIRE_GID_BYTES];
	unsigned fds;

	from = open_port(1, gid);
	fds = count_fds();
	pthread_barrier_init(&start, NULL, OPENERS);
	for (uintptr_t i = 0; i < OPENERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_senders, (void *)i), 0);
	for (int i = 0; i < OPENERS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		for (int i = 1; i < OPENERS; i++)
			assert_ptr_equal(opened[i][slot], opened[0][slot]);
	assert_int_equal(count_fds(), fds + SLOTS);
	udp_close(from);
	assert_int_equal(count_fds(), fds - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads),
					    cmocka_unit_test(test_one_sender_for_all_threads) };

	net_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
