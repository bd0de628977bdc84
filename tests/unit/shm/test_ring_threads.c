/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A producer and a consumer thread on one ring: every byte arrives once and in order. Takes a seed
 * as its argument; prints it.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/ring.h"

#define RING_BYTES RING_BYTES_MIN

#define LAPS 12

static unsigned seed;
static struct ring_control control;
static struct ring_producer tx;
static struct ring_consumer rx;
static uint32_t wrong;

static uint32_t draw(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

/* Mostly small, as in life. Both threads draw the same. */
static uint32_t draw_bytes(uint32_t *random)
{
	uint32_t chance = draw(random) % 16;

	return draw(random) % (chance ? 200 : RECORD_PAYLOAD_MAX + 1);
}

static uint8_t pattern(uint32_t number, uint32_t i)
{
	return (uint8_t)(number * 31 + i * 7);
}

static void *produce(void *arg)
{
	uint32_t random = seed;

	for (uint32_t number = 0; tx.tail < (uint64_t)LAPS * RING_BYTES; number++) {
		uint32_t bytes = draw_bytes(&random);
		struct record *record;

		while (!(record = ring_reserve(&tx, bytes, 0)))
			sched_yield();
		record->header.bytes = bytes;
		record->header.msn = number;
		record->header.remote_addr = seed;
		for (uint32_t i = 0; i < bytes; i++)
			record->payload[i] = pattern(number, i);
		ring_publish(&tx, record, record_word(OPERATION_SEND, number & 31, bytes));
		if (number % 64 == 0)
			ring_give_back(&tx);
	}
	return NULL;
}

static void check(const struct record_header *header, const struct record *record, uint32_t number,
		  uint32_t bytes)
{
	wrong += header->bytes != bytes || header->msn != number || header->remote_addr != seed ||
		 record_flags(header) != (number & 31);
	for (uint32_t i = 0; i < header->bytes; i++)
		wrong += record->payload[i] != pattern(number, i);
}

static void *consume(void *arg)
{
	uint32_t random = seed, pace = seed + 1;

	for (uint32_t number = 0; rx.head < (uint64_t)LAPS * RING_BYTES && !rx.broken; number++) {
		uint32_t bytes = draw_bytes(&random);
		struct record_header header;
		struct record *record;

		while (!(record = ring_peek(&rx, &header)) && !rx.broken) {
			ring_release(&rx); /* the producer may be waiting for room */
			sched_yield();
		}
		if (!record)
			break;
		check(&header, record, number, bytes);
		ring_advance(&rx, &header);
		if (draw(&pace) % 8 == 0)
			ring_release(&rx);
	}
	return NULL;
}

static void test_every_byte_arrives(void **state)
{
	int fd = memfd_create("ring", MFD_CLOEXEC);
	pthread_t producer, consumer;

	assert_int_equal(ftruncate(fd, RING_BYTES), 0);
	tx.data = ring_map(fd, 0, RING_BYTES);
	assert_ptr_not_equal(tx.data, MAP_FAILED);
	close(fd);
	/* One mapping for both, so that the thread sanitizer sees that they meet in one place. */
	rx.data = tx.data;
	rx.control = tx.control = &control;
	rx.bytes = tx.bytes = RING_BYTES;
	rx.hold = UINT64_MAX;
	assert_int_equal(pthread_create(&producer, NULL, produce, NULL), 0);
	assert_int_equal(pthread_create(&consumer, NULL, consume, NULL), 0);
	pthread_join(producer, NULL);
	pthread_join(consumer, NULL);
	assert_false(tx.broken);
	assert_false(rx.broken);
	assert_int_equal(wrong, 0);
	assert_int_equal(rx.head, tx.tail);
	ring_unmap(tx.data, RING_BYTES);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte_arrives),
	};

	seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	printf("seed %u\n", seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
