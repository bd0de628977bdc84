/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/cause.h"

#define WRITERS		   4
#define REPORTS_PER_WRITER 20000

static void *arena_new(void)
{
	void *arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(arena != MAP_FAILED);
	return arena;
}

static void arena_free(void *arena)
{
	cause_init(NULL);
	munmap(arena, ARENA_BYTES);
}

/* Users note vendor_err, so rows must not move. */
static void numbers_are_stable(void **state)
{
	assert_int_equal(CAUSE_LKEY_UNKNOWN, 1);
	assert_int_equal(CAUSE_RKEY_UNKNOWN, 5);
	assert_int_equal(CAUSE_RECEIVE_TOO_SHORT, 13);
	assert_int_equal(CAUSE_NO_RECEIVE, 20);
	assert_int_equal(CAUSE_PEER_DIED, 21);
	assert_int_equal(CAUSE_FLUSHED, 26);
	assert_int_equal(CAUSE_BUSY_PD, 37);
}

static void each_cause_has_its_words(void **state)
{
	for (int i = 1; i < CAUSE_COUNT; i++) {
		const char *sentence = cause_sentence(i), *remedy = cause_remedy(i);

		assert_non_null(cause_name(i));
		assert_true(strlen(sentence) > 10 && strlen(sentence) < 110);
		assert_true(sentence[strlen(sentence) - 1] != '.');
		assert_true(strlen(remedy) > 10 && remedy[strlen(remedy) - 1] == '.');
		assert_true(strlen(remedy) < 370); /* one line takes it, and the longest text */
		for (int j = 1; j < i; j++)
			assert_string_not_equal(cause_name(i), cause_name(j));
	}
	assert_string_equal(cause_name(CAUSE_LKEY_PD), "LKEY_PD");
}

static void unknown_numbers_have_words_too(void **state)
{
	const enum cause numbers[] = { CAUSE_COUNT, (enum cause) - 1, (enum cause)INT_MAX };

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		assert_string_equal(cause_name(numbers[i]), "UNKNOWN");
		assert_non_null(cause_sentence(numbers[i]));
		assert_non_null(cause_remedy(numbers[i]));
	}
}

static void report_is_kept(void **state)
{
	void *arena = arena_new();
	struct arena_cause copy;

	cause_init(arena);
	assert_false(cause_read(&arena_causes(arena)[0], &copy));
	errno = EXDEV;
	cause_report(CAUSE_LKEY_RANGE, 0x4001, "lkey 0x%x, %s", 0x1234u, "too far");
	assert_int_equal(errno, EXDEV);
	cause_report(CAUSE_PEER_DIED, 0, NULL);

	assert_true(cause_read(&arena_causes(arena)[0], &copy));
	assert_int_equal(copy.number, 1);
	assert_int_equal(copy.cause, CAUSE_LKEY_RANGE);
	assert_int_equal(copy.qpn, 0x4001);
	assert_true(copy.time_ns > 0);
	assert_string_equal(copy.text,
			    "An SGE reaches outside its memory region: lkey 0x1234, too far");
	assert_true(cause_read(&arena_causes(arena)[1], &copy));
	assert_string_equal(copy.text, cause_sentence(CAUSE_PEER_DIED));
	assert_int_equal(arena_header(arena)->cause_next, 2);
	arena_free(arena);
}

/*
 * The second report does not even format its values; the next one, a second later, has their
 * number.
 */
static void ratelimited_is_reported_once_a_second(void **state)
{
	const struct timespec second = { 1, 20 * 1000000 };
	void *arena = arena_new();
	struct arena_cause copy;

	cause_init(arena);
	cause_report_ratelimited(CAUSE_UD_NO_RECEIVE, 7, "from %d", 1);
	for (int i = 0; i < 1000; i++)
		cause_report_ratelimited(CAUSE_UD_NO_RECEIVE, 7, "from %s", (const char *)8);
	assert_int_equal(arena_header(arena)->cause_next, 1);
	cause_report_ratelimited(CAUSE_UD_NO_RECEIVE, 8, "from %d", 1);
	cause_report_ratelimited(CAUSE_UD_TOO_LONG, 7, "from %d", 1);
	assert_int_equal(arena_header(arena)->cause_next, 3);
	nanosleep(&second, NULL);
	cause_report_ratelimited(CAUSE_UD_NO_RECEIVE, 7, "from %d", 2);
	assert_true(cause_read(&arena_causes(arena)[3], &copy));
	assert_non_null(strstr(copy.text, ": from 2 (and 1000 more since the last report)"));
	arena_free(arena);
}

static void long_values_are_cut(void **state)
{
	void *arena = arena_new();
	struct arena_cause copy;
	char values[1000];

	memset(values, 'x', sizeof(values) - 1);
	values[sizeof(values) - 1] = 0;
	cause_init(arena);
	cause_report(CAUSE_INTERNAL, 1, "%s", values);
	assert_true(cause_read(&arena_causes(arena)[0], &copy));
	assert_int_equal(strlen(copy.text), sizeof(copy.text) - 1);
	arena_free(arena);
}

static void ring_keeps_the_newest(void **state)
{
	void *arena = arena_new();
	struct arena_cause copy;

	cause_init(arena);
	for (unsigned i = 0; i < ARENA_CAUSES + 3; i++)
		cause_report(CAUSE_INTERNAL, i + 1, NULL);
	for (unsigned i = 0; i < ARENA_CAUSES; i++) {
		assert_true(cause_read(&arena_causes(arena)[i], &copy));
		assert_int_equal(copy.number, i < 3 ? ARENA_CAUSES + i + 1 : i + 1);
		assert_int_equal(copy.qpn, copy.number);
	}
	arena_free(arena);
}

static void without_arena_nothing_happens(void **state)
{
	void *arena = arena_new();

	cause_init(arena);
	cause_reset_after_fork();
	cause_report(CAUSE_INTERNAL, 1, NULL);
	assert_int_equal(arena_header(arena)->cause_next, 0);
	arena_free(arena);
}

static void *write_reports(void *arg)
{
	uint32_t writer = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 0; i < REPORTS_PER_WRITER; i++) {
		uint32_t value = writer << 20 | i;

		cause_report(CAUSE_INTERNAL, value, "%08x %08x %08x %08x %08x %08x %08x %08x %08x",
			     value, value, value, value, value, value, value, value, value);
	}
	return NULL;
}

static bool entry_is_whole(const struct arena_cause *entry)
{
	const char *values = strchr(entry->text, ':');
	unsigned value, count = 0;
	int used;

	while (values && sscanf(values + 1, "%8x%n", &value, &used) == 1) {
		if (value != entry->qpn)
			return false;
		values += used;
		count++;
	}
	return count == 9 && entry->cause == CAUSE_INTERNAL;
}

static void no_reader_sees_a_torn_entry(void **state)
{
	void *arena = arena_new();
	struct arena_header *header = arena_header(arena);
	uint64_t newest[ARENA_CAUSES] = { 0 }, seen = 0;
	const uint64_t all = WRITERS * REPORTS_PER_WRITER;
	pthread_t writers[WRITERS];
	struct arena_cause copy;
	bool last_round;

	cause_init(arena);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_reports, (void *)(i + 1)),
				 0);
	do {
		last_round = atomic_load(&header->cause_next) >= all;
		for (unsigned i = 0; i < ARENA_CAUSES; i++) {
			if (!cause_read(&arena_causes(arena)[i], &copy))
				continue;
			assert_true(entry_is_whole(&copy));
			assert_int_equal((copy.number - 1) % ARENA_CAUSES, i);
			assert_true(copy.number >= newest[i]);
			newest[i] = copy.number;
			seen++;
		}
	} while (!last_round);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	assert_true(seen > 0);
	assert_int_equal(header->cause_next, all);
	arena_free(arena);
}

/* The environment is read once a process: each case has its own. Returns what went to stderr. */
static void lines_of_child(const char *explain, const char *file, const char *more, char *out,
			   size_t out_len)
{
	int ends[2], status;
	ssize_t len = 0, got;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		setenv("VERBATIM_EXPLAIN", explain, 1);
		execl("/proc/self/exe", "test_cause", "--report", more, NULL);
		_exit(1);
	}
	close(ends[1]);
	while ((got = read(ends[0], out + len, out_len - 1 - len)) > 0)
		len += got;
	close(ends[0]);
	if (file) {
		int fd = open(file, O_RDONLY);

		assert_int_equal(len, 0);
		assert_true(fd >= 0);
		len = read(fd, out, out_len - 1);
		close(fd);
	}
	out[len] = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void lines_are_written_if_asked(void **state)
{
	char path[] = "/tmp/test_cause.XXXXXX", out[2000], *text;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);

	lines_of_child("0", NULL, NULL, out, sizeof(out));
	assert_string_equal(out, "");
	lines_of_child("", NULL, NULL, out, sizeof(out));
	assert_string_equal(out, "");

	lines_of_child("1", NULL, NULL, out, sizeof(out));
	assert_int_equal(strncmp(out, "verbatim[", 9), 0);
	text = strchr(out, ']');
	assert_non_null(text);
	assert_string_equal(text,
			    "]: QP 0x00c001: The lkey of a receive's SGE names no memory region: "
			    "lkey 0x17. Use the lkey that ibv_reg_mr returned, and keep the "
			    "region until the receive completes.\n");

	lines_of_child(path, path, NULL, out, sizeof(out));
	assert_int_equal(strncmp(out, "verbatim[", 9), 0);
	/* The file must not take the place of standard error. */
	lines_of_child(path, path, "without stderr", out, sizeof(out));
	unlink(path);

	lines_of_child("/no/such/file", NULL, "twice", out, sizeof(out));
	assert_non_null(strstr(out, "/no/such/file cannot be opened (No such file or directory)"));
	assert_non_null(strstr(out, "QP 0x00c001: The lkey"));
	assert_non_null(strstr(out, "QP 0x00c002: The lkey"));
	assert_null(strstr(strstr(out, "/no/such/file") + 1, "/no/such/file"));
}

static void notes_are_kept_and_not_printed(void **state)
{
	struct arena_cause entry;
	void *arena = arena_new();

	cause_init(arena);
	cause_note(CAUSE_LAST_WQE, 5, "%d", 17);
	assert_true(cause_read(&arena_causes(arena)[0], &entry));
	assert_int_equal(entry.cause, CAUSE_LAST_WQE);
	assert_int_equal(entry.qpn, 5);
	cause_init(NULL);
	arena_free(arena);
}

static void closed_standard_error_is_no_harm(void **state)
{
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		setenv("VERBATIM_EXPLAIN", "1", 1);
		execl("/proc/self/exe", "test_cause", "--report", NULL);
		_exit(1);
	}
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Standard error is a file that is as long as the program's files may be. */
static void full_standard_error_is_no_harm(void **state)
{
	int file = memfd_create("stderr", 0), status;
	struct rlimit none;
	pid_t child;

	assert_true(file >= 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &none), 0);
	none.rlim_cur = 0;
	child = fork();
	if (child == 0) {
		dup2(file, STDERR_FILENO);
		if (setrlimit(RLIMIT_FSIZE, &none))
			_exit(1);
		setenv("VERBATIM_EXPLAIN", "1", 1);
		execl("/proc/self/exe", "test_cause", "--report", NULL);
		_exit(1);
	}
	close(file);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_stable),
		cmocka_unit_test(each_cause_has_its_words),
		cmocka_unit_test(unknown_numbers_have_words_too),
		cmocka_unit_test(report_is_kept),
		cmocka_unit_test(long_values_are_cut),
		cmocka_unit_test(ratelimited_is_reported_once_a_second),
		cmocka_unit_test(ring_keeps_the_newest),
		cmocka_unit_test(without_arena_nothing_happens),
		cmocka_unit_test(no_reader_sees_a_torn_entry),
		cmocka_unit_test(lines_are_written_if_asked),
		cmocka_unit_test(notes_are_kept_and_not_printed),
		cmocka_unit_test(closed_standard_error_is_no_harm),
		cmocka_unit_test(full_standard_error_is_no_harm),
	};

	/* The parent may have set SIG_IGN: then waitpid would find no child. */
	signal(SIGCHLD, SIG_DFL);
	if (argc > 1 && strcmp(argv[1], "--report") == 0) {
		if (argc > 2 && strcmp(argv[2], "without stderr") == 0) {
			close(STDERR_FILENO);
			cause_report(CAUSE_RECEIVE_LKEY_UNKNOWN, 0xc001, "lkey 0x%x", 0x17u);
			return fcntl(STDERR_FILENO, F_GETFD) >= 0;
		}
		cause_report(CAUSE_RECEIVE_LKEY_UNKNOWN, 0xc001, "lkey 0x%x", 0x17u);
		if (argc > 2)
			cause_report(CAUSE_RECEIVE_LKEY_UNKNOWN, 0xc002, "lkey 0x%x", 0x17u);
		cause_note(CAUSE_LAST_WQE, 0xc001, NULL);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
