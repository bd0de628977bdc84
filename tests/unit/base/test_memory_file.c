/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which descriptors of other processes may be mapped: a sealed memfd of ordinary pages, and no
 * other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory_file.h"

#define FIXED (F_SEAL_SHRINK | F_SEAL_GROW)

static int make(unsigned flags, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		skip(); /* a kernel without hugetlbfs */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void expect(int fd, bool fits, bool is_fixed)
{
	assert_true(fd >= 0);
	assert_int_equal(memory_file_has_seals(fd, F_SEAL_SHRINK), fits);
	assert_int_equal(memory_file_is_fixed(fd), is_fixed);
	close(fd);
}

static void test_a_sealed_memfd_fits(void **state)
{
	expect(make(0, FIXED), true, true);
	expect(make(0, F_SEAL_SHRINK), true, false);
	expect(make(0, 0), false, false);
}

/* Its pages are a pool that may be empty: each access may raise SIGBUS. */
static void test_huge_pages_do_not_fit(void **state)
{
	expect(make(MFD_HUGETLB, FIXED), false, false);
}

static void test_what_is_no_memfd_does_not_fit(void **state)
{
	char path[] = "/dev/shm/verbatim-test-XXXXXX";
	int ends[2], file = mkstemp(path);

	assert_true(file >= 0);
	unlink(path);
	expect(file, false, false);
	assert_int_equal(pipe(ends), 0);
	expect(ends[0], false, false);
	expect(ends[1], false, false);
	expect(eventfd(0, 0), false, false);
	expect(socket(AF_UNIX, SOCK_DGRAM, 0), false, false);
	assert_false(memory_file_is_fixed(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sealed_memfd_fits),
		cmocka_unit_test(test_huge_pages_do_not_fit),
		cmocka_unit_test(test_what_is_no_memfd_does_not_fit),
	};

	return cmocka_run_group_tests_name("memory file", tests, NULL, NULL);
}
