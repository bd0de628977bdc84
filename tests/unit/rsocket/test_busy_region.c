/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A region that cannot be deregistered, because a process was stopped while it copies to it, which
 * may store there once more: the program learns of it, and the memory is given to nobody else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGIONS = 8 };

static bool busy;
static void (*during)(void); /* another thread's call while a region is deregistered */
static struct {
	void *addr;
	size_t length;
} refused[REGIONS];
static unsigned refusals;

/* librdmacm calls this one. */
__attribute__((visibility("default"))) int ibv_dereg_mr(struct ibv_mr *mr)
{
	int (*real)(struct ibv_mr * mr) =
		(int (*)(struct ibv_mr *))dlsym(RTLD_NEXT, "ibv_dereg_mr");

	if (during)
		during();
	if (!busy)
		return real(mr);
	assert_in_range(refusals, 0, REGIONS - 1);
	refused[refusals].addr = mr->addr;
	refused[refusals++].length = mr->length;
	return errno = EBUSY;
}

static void *connect_to(void *addr)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), mappings = 4;

	rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof(mappings));
	if (rconnect(fd, addr, sizeof(struct sockaddr_in)))
		return (void *)-1;
	return (void *)(intptr_t)fd;
}

static void make_pair(int fds[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), mappings = 4;
	socklen_t length = sizeof(addr);
	pthread_t thread;
	void *result;

	assert_return_code(rbind(listener, (struct sockaddr *)&addr, sizeof(addr)), errno);
	assert_return_code(rgetsockname(listener, (struct sockaddr *)&addr, &length), errno);
	rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof(mappings));
	assert_return_code(rlisten(listener, 1), errno);
	assert_int_equal(pthread_create(&thread, NULL, connect_to, &addr), 0);
	fds[1] = raccept(listener, NULL, NULL);
	assert_return_code(fds[1], errno);
	pthread_join(thread, &result);
	fds[0] = (int)(intptr_t)result;
	assert_true(fds[0] >= 0);
	assert_return_code(rclose(listener), errno);
}

/* riounmap fails as ibv_dereg_mr does, and can be repeated; then the peer learns of it. */
static void unmapped(void **state)
{
	static char memory[10000];
	int fds[2];
	char byte;

	make_pair(fds);
	assert_int_equal(riomap(fds[1], memory, sizeof(memory), PROT_WRITE, 0, 0), 0);
	assert_int_equal(rsend(fds[1], "m", 1, 0), 1);
	assert_int_equal(rrecv(fds[0], &byte, 1, 0), 1);
	for (int i = 0; i < 2; i++) {
		busy = true;
		assert_int_equal(riounmap(fds[1], memory, sizeof(memory)), -1);
		assert_int_equal(errno, EBUSY);
		busy = false;
	}
	assert_return_code(riounmap(fds[1], memory, sizeof(memory)), errno);
	assert_int_equal(riounmap(fds[1], memory, sizeof(memory)), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rsend(fds[1], "u", 1, 0), 1);
	assert_int_equal(rrecv(fds[0], &byte, 1, 0), 1);
	assert_int_equal(riowrite(fds[0], "x", 1, 0, 0), 0);
	assert_return_code(rclose(fds[0]), errno);
	assert_return_code(rclose(fds[1]), errno);
}

static int pair[2];
static char shared[10000], another[5000];

static void use_the_stream(void)
{
	char byte;

	during = NULL;
	assert_int_equal(rsend(pair[1], "d", 1, 0), 1);
	assert_int_equal(rrecv(pair[0], &byte, 1, 0), 1);
	assert_int_equal(rrecv(pair[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(riounmap(pair[1], shared, sizeof(shared)), -1);
	assert_int_equal(errno, EINVAL);
	/* its place in the peer's list is not free yet */
	assert_int_equal(riomap(pair[1], another, sizeof(another), PROT_WRITE, 0, 20000), 20000);
}

/* ibv_dereg_mr may take seconds: other threads go on meanwhile. */
static void used_while_unmapped(void **state)
{
	char byte;

	make_pair(pair);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(riomap(pair[1], shared, sizeof(shared), PROT_WRITE, 0, 0), 0);
		if (i) { /* the peer has been told */
			assert_int_equal(rsend(pair[1], "m", 1, 0), 1);
			assert_int_equal(rrecv(pair[0], &byte, 1, 0), 1);
		}
		during = use_the_stream;
		busy = i;
		assert_int_equal(riounmap(pair[1], shared, sizeof(shared)), -i);
		busy = false;
		if (i)
			assert_return_code(riounmap(pair[1], shared, sizeof(shared)), errno);
		assert_int_equal(rsend(pair[1], "u", 1, 0), 1);
		assert_int_equal(rrecv(pair[0], &byte, 1, 0), 1);
		assert_int_equal(riowrite(pair[0], "xyz", 3, 20100, 0), 3);
		assert_int_equal(rsend(pair[0], "w", 1, 0), 1);
		assert_int_equal(rrecv(pair[1], &byte, 1, 0), 1);
		assert_memory_equal(another + 100, "xyz", 3);
		assert_int_equal(riowrite(pair[0], "x", 1, 0, 0), 0);
		assert_return_code(riounmap(pair[1], another, sizeof(another)), errno);
		memset(another, 0, sizeof(another));
	}
	assert_return_code(rclose(pair[0]), errno);
	assert_return_code(rclose(pair[1]), errno);
}

/* riostream maps anew before the peer can know that the last mapping has ended. */
static void mapped_anew(void **state)
{
	enum { ENTRIES = 4 };
	char byte;

	make_pair(pair);
	for (int i = 0; i < 3 * ENTRIES; i++) {
		assert_int_equal(riomap(pair[1], shared, sizeof(shared), PROT_WRITE, 0, i), i);
		assert_return_code(riounmap(pair[1], shared, sizeof(shared)), errno);
	}
	for (int turn = 0; turn < 3; turn++) { /* from the second on the peer knows the last ones */
		char *bytes = shared + 1000 * turn;

		for (int i = 0; i < ENTRIES; i++)
			assert_int_equal(
				riomap(pair[1], bytes + 100 * i, 100, PROT_WRITE, 0, 1000 * i),
				1000 * i);
		assert_int_equal(riomap(pair[1], shared, 100, PROT_WRITE, 0, 9000), -1);
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(rsend(pair[1], "m", 1, 0), 1);
		assert_int_equal(rrecv(pair[0], &byte, 1, 0), 1);
		for (int i = 0; i < ENTRIES; i++)
			assert_int_equal(riowrite(pair[0], &"abcd"[i], 1, 1000 * i, 0), 1);
		assert_int_equal(rsend(pair[0], "w", 1, 0), 1);
		assert_int_equal(rrecv(pair[1], &byte, 1, 0), 1);
		for (int i = 0; i < ENTRIES; i++) {
			assert_int_equal(bytes[100 * i], "abcd"[i]);
			assert_return_code(riounmap(pair[1], bytes + 100 * i, 100), errno);
		}
	}
	assert_return_code(rclose(pair[0]), errno);
	assert_return_code(rclose(pair[1]), errno);
}

static bool is_mapped(void *addr, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)addr % page;
	static unsigned char pages[1024];

	assert_in_range(length, 1, (sizeof(pages) - 1) * page);
	return !mincore((char *)addr - before, length + before, pages);
}

static void all_stay_mapped(void)
{
	assert_in_range(refusals, 1, REGIONS);
	for (unsigned i = 0; i < refusals; i++)
		assert_true(is_mapped(refused[i].addr, refused[i].length));
	refusals = 0;
}

static void stream_closed(void **state)
{
	int fds[2];

	make_pair(fds);
	refusals = 0;
	assert_return_code(rclose(fds[0]), errno);
	busy = true;
	assert_return_code(rclose(fds[1]), errno);
	busy = false;
	all_stay_mapped();
}

static void datagram_closed(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_port = htons(9),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const char *transport = getenv("VERBATIM_TRANSPORT");
	int fd;

	if (transport && !strcmp(transport, "iwarp")) /* which has no UD */
		skip();
	fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	refusals = 0;
	assert_int_equal(rsendto(fd, "x", 1, 0, (struct sockaddr *)&addr, sizeof(addr)), 1);
	busy = true;
	assert_return_code(rclose(fd), errno);
	busy = false;
	all_stay_mapped();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unmapped),	   cmocka_unit_test(used_while_unmapped),
		cmocka_unit_test(mapped_anew),	   cmocka_unit_test(stream_closed),
		cmocka_unit_test(datagram_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
