/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handshake by GnuTLS, and what the kernel is given: each end's keys of one direction are the
 * other's of that direction. The kernel is this file's, as not each has kTLS.
 */
#include "tls/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#define LINE "node:00112233445566778899aabbccddeeff\n"

static int fds[2]; /* client, server */
static struct tls_end {
	bool has_ulp;
	struct tls12_crypto_info_aes_gcm_128 tx, rx;
} * ends; /* shared with the processes of both ends */
static bool no_ktls;
static char path[] = "/tmp/test_tls.XXXXXX";

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct tls_end *end = fd == fds[0] ? &ends[0] : fd == fds[1] ? &ends[1] : NULL;

	if (level == IPPROTO_TCP && name == TCP_ULP) {
		assert_string_equal(value, "tls");
		errno = no_ktls ? ENOENT : ENOTCONN;
		if (!end || no_ktls)
			return -1;
		end->has_ulp = true;
		return 0;
	}
	if (level != SOL_TLS)
		return __real_setsockopt(fd, level, name, value, len);
	assert_true(end && end->has_ulp);
	assert_int_equal(len, sizeof(end->tx));
	memcpy(name == TLS_TX ? &end->tx : &end->rx, value, len);
	return 0;
}

static void make_file(const char *text, mode_t mode)
{
	int fd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	setenv("VERBATIM_IWARP_TLS", path, 1);
}

static int setup(void **state)
{
	ends = mmap(NULL, 2 * sizeof(*ends), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds);
}

static int teardown(void **state)
{
	close(fds[0]);
	close(fds[1]);
	fds[0] = fds[1] = -1;
	munmap(ends, 2 * sizeof(*ends));
	return 0;
}

/* To its end: the result. */
static int shake(int end)
{
	struct tls *tls = tls_begin(fds[end], end == 0);
	int rc;

	assert_non_null(tls);
	for (int turn = 0; (rc = tls_go_on(tls)) > 0 && turn < 100; turn++) {
		struct pollfd p = { .fd = fds[end], .events = (short)rc };

		poll(&p, 1, 100);
	}
	tls_end(tls);
	return rc;
}

/* The key is read once in a process: each end is one. */
static pid_t start_end(int end, const char *line)
{
	char why[TLS_WHY_BYTES];
	pid_t pid = fork();

	if (pid)
		return pid;
	make_file(line, 0600);
	assert_true(tls_is_on());
	assert_int_equal(tls_check(why), 0);
	unlink(path); /* it is not needed any more */
	clearenv();
	_exit(shake(end) == 0 ? 0 : 1);
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_keys(void **state)
{
	pid_t client = start_end(0, LINE), server = start_end(1, LINE);
	char byte;

	assert_int_equal(status_of(client), 0);
	assert_int_equal(status_of(server), 0);
	assert_int_equal(ends[0].tx.info.version, TLS_1_3_VERSION);
	assert_int_equal(ends[0].tx.info.cipher_type, TLS_CIPHER_AES_GCM_128);
	assert_memory_equal(&ends[0].tx, &ends[1].rx, sizeof(ends[0].tx));
	assert_memory_equal(&ends[0].rx, &ends[1].tx, sizeof(ends[0].tx));
	assert_memory_not_equal(ends[0].rx.key, ends[0].tx.key, sizeof(ends[0].tx.key));
	/* the kernel would take no ticket, or what else GnuTLS said after the handshake */
	for (int i = 0; i < 2; i++)
		assert_true(recv(fds[i], &byte, 1, 0) < 0 && errno == EAGAIN);
}

/* Keys are new for each connection. */
static void test_forward_secrecy(void **state)
{
	struct tls_end before;

	test_keys(state);
	before = ends[0];
	test_keys(state);
	assert_memory_not_equal(before.tx.key, ends[0].tx.key, sizeof(before.tx.key));
}

static void fails(const char *line_of_server)
{
	pid_t client = start_end(0, LINE), server = start_end(1, line_of_server);

	assert_int_equal(status_of(server), 1);
	shutdown(fds[1], SHUT_RDWR); /* as the server does then */
	status_of(client);
	assert_false(ends[1].has_ulp);
}

static void test_another_key(void **state)
{
	fails("node:00112233445566778899aabbccddeefe\n");
}

static void test_another_name(void **state)
{
	fails("nodes:00112233445566778899aabbccddeeff\n");
}

/* A peer that sends MPA's frame in the clear. */
static void test_no_tls(void **state)
{
	pid_t server = start_end(1, LINE);

	assert_int_equal(send(fds[0], "MPA ID Req Frame\x40\x02\0\0", 20, 0), 20);
	assert_int_equal(status_of(server), 1);
}

static void test_peer_goes(void **state)
{
	pid_t client = start_end(0, LINE);

	shutdown(fds[1], SHUT_RDWR);
	assert_int_equal(status_of(client), 1);
}

/* What tls_check says of a file, in a process of its own. */
static int check(const char *text, mode_t mode, const char *says)
{
	char why[TLS_WHY_BYTES];
	pid_t pid = fork();
	int rc;

	if (pid)
		return -status_of(pid);
	if (text)
		make_file(text, mode);
	assert_true(tls_is_on());
	rc = tls_check(why);
	unlink(path);
	if (rc && !strstr(why, says))
		_exit(255);
	_exit(-rc);
}

static void test_check(void **state)
{
	static const char *const bad[] = {
		"",
		"node",
		"node:",
		":00112233445566778899aabbccddeeff",
		"node:0g112233445566778899aabbccddeeff",
		"node:00112233445566778899aabbccddee",
		"node:00112233445566778899aabbccddeef",
		"node 00112233445566778899aabbccddeeff",
	};
	char longest[2048];

	assert_int_equal(check(LINE, 0600, ""), 0);
	assert_int_equal(check("node:00112233445566778899AABBCCDDEEFF", 0400, ""), 0);
	no_ktls = true;
	assert_int_equal(check(LINE, 0600, "kTLS"), -EOPNOTSUPP);
	no_ktls = false;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(check(bad[i], 0600, "NAME:KEY"), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[4] = ':';
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(check(longest, 0600, "NAME:KEY"), -EINVAL);
	assert_int_equal(check(LINE, 0640, "open to others"), -EACCES);
	assert_int_equal(check(LINE, 0604, "open to others"), -EACCES);
	setenv("VERBATIM_IWARP_TLS", "/nowhere", 1);
	assert_int_equal(check(NULL, 0, "/nowhere"), -ENOENT);
	setenv("VERBATIM_IWARP_TLS", "/dev/null", 1); /* no file */
	assert_int_equal(check(NULL, 0, "NAME:KEY"), -EINVAL);
	setenv("VERBATIM_IWARP_TLS", "", 1); /* not the same as nothing */
	assert_int_equal(check(NULL, 0, ""), -ENOENT);
	unsetenv("VERBATIM_IWARP_TLS");
	assert_false(tls_is_on());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forward_secrecy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_tls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_check, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
