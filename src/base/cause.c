/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cause.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/uncancelled.h"

#define ENTRY_WORDS (sizeof(struct arena_cause) / sizeof(uint64_t))

static_assert(offsetof(struct arena_cause, number) == 0, "the number is word 0");

static const struct {
	const char *name, *sentence, *remedy;
} causes[CAUSE_COUNT] = {
	[CAUSE_NONE] = { "NONE", "No cause", "" },
#define X(name, sentence, remedy) [CAUSE_##name] = { #name, sentence, remedy },
#include "base/cause.def"
#undef X
};

static _Atomic(void *) ring_arena;

/*
 * Set while a thread writes an entry. Only a report that comes 256 reports later can find it set:
 * its own entry is lost then, which is better than a torn one.
 */
static _Atomic bool entry_taken[ARENA_CAUSES];

static enum { LINES_OFF, LINES_STDERR, LINES_FILE } lines;
static char lines_path[PATH_MAX];
static pthread_once_t lines_once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
	const char *value = secure_getenv("VERBATIM_EXPLAIN");
	char here[PATH_MAX];
	int len;

	if (!value || !*value || strcmp(value, "0") == 0)
		return;
	if (strcmp(value, "1") == 0) {
		lines = LINES_STDERR;
		return;
	}

	/* Absolute from the start: the program may change its directory. */
	if (*value == '/' || !getcwd(here, sizeof(here)))
		len = snprintf(lines_path, sizeof(lines_path), "%s", value);
	else
		len = snprintf(lines_path, sizeof(lines_path), "%s/%s", here, value);
	lines = len < (int)sizeof(lines_path) ? LINES_FILE : LINES_STDERR;
}

void cause_init(void *arena)
{
	int saved = errno;

	pthread_once(&lines_once, read_environment);
	atomic_store_explicit(&ring_arena, arena, memory_order_release);
	errno = saved;
}

void cause_reset_after_fork(void)
{
	atomic_store_explicit(&ring_arena, NULL, memory_order_release);
	for (unsigned i = 0; i < ARENA_CAUSES; i++)
		atomic_store_explicit(&entry_taken[i], false, memory_order_relaxed);
}

/*
 * Barrier CAUSE, writer: the number is 0 before any word of the text changes, because each
 * word is stored with release; and the new number is stored after all of them, with release.
 */
static void store_entry(struct arena_cause *entry, const struct arena_cause *from, uint64_t number)
{
	_Atomic uint64_t *to_word = (_Atomic uint64_t *)entry;
	const uint64_t *from_word = (const uint64_t *)from;

	atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
	for (unsigned i = 1; i < ENTRY_WORDS; i++)
		atomic_store_explicit(&to_word[i], from_word[i], memory_order_release);
	atomic_store_explicit(&entry->number, number, memory_order_release);
}

/*
 * Barrier CAUSE, reader: each word is loaded with acquire, so that the second look at the
 * number is after all of them: it is unchanged only if no writer had begun.
 */
bool cause_read(const struct arena_cause *entry, struct arena_cause *copy)
{
	const _Atomic uint64_t *from_word = (const _Atomic uint64_t *)entry;
	uint64_t *to_word = (uint64_t *)copy;
	uint64_t number = atomic_load_explicit(&entry->number, memory_order_acquire);

	if (number == 0)
		return false;
	to_word[0] = number;
	for (unsigned i = 1; i < ENTRY_WORDS; i++)
		to_word[i] = atomic_load_explicit(&from_word[i], memory_order_acquire);
	copy->text[sizeof(copy->text) - 1] = 0;
	return atomic_load_explicit(&entry->number, memory_order_relaxed) == number;
}

static void keep(void *arena, const struct arena_cause *report)
{
	uint64_t number = atomic_fetch_add_explicit(&arena_header(arena)->cause_next, 1,
						    memory_order_relaxed) +
			  1;
	unsigned index = (number - 1) % ARENA_CAUSES;
	struct arena_cause *entry = &arena_causes(arena)[index];

	if (atomic_exchange_explicit(&entry_taken[index], true, memory_order_acquire))
		return;
	/* A thread that was preempted must not overwrite a newer entry. */
	if (atomic_load_explicit(&entry->number, memory_order_relaxed) < number)
		store_entry(entry, report, number);
	atomic_store_explicit(&entry_taken[index], false, memory_order_release);
}

/* The signal that a write which failed so has sent to this thread; 0: none. */
static int signal_of(int error)
{
	return error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
}

/*
 * One write, so that lines of several threads and processes do not mix. A pipe without a reader, or
 * a file as long as may be, must not end the program.
 */
static void write_line(int fd, const char *line, size_t len)
{
	const struct timespec now = { 0, 0 };
	sigset_t signals, before, pending;
	int sent;

	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	sigaddset(&signals, SIGXFSZ);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &signals, &before);
	sent = write(fd, line, len) < 0 ? signal_of(errno) : 0;
	if (sent && !sigismember(&pending, sent)) {
		sigemptyset(&signals);
		sigaddset(&signals, sent);
		sigtimedwait(&signals, NULL, &now);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The file to append to; -1 if it cannot be opened, of which standard error is told once. */
static int open_lines(void)
{
	static atomic_bool told;
	char line[PATH_MAX + 160];
	int fd = open(lines_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
	int len;

	if (fd >= 0)
		return fd;
	len = snprintf(line, sizeof(line),
		       "verbatim[%d]: VERBATIM_EXPLAIN: %s cannot be opened (%m); until it can, "
		       "causes go to standard error.\n",
		       (int)getpid(), lines_path);
	if (!atomic_exchange(&told, true))
		write_line(STDERR_FILENO, line, (size_t)len);
	return -1;
}

static void print_report(const struct arena_cause *report)
{
	UNCANCELLED;
	char line[640], qp[32] = "";
	int file = -1, len;

	if (report->qpn)
		snprintf(qp, sizeof(qp), "QP 0x%06x: ", report->qpn);
	len = snprintf(line, sizeof(line), "verbatim[%d]: %s%s. %s\n", (int)getpid(), qp,
		       report->text, cause_remedy(report->cause));
	if (len >= (int)sizeof(line)) {
		len = sizeof(line) - 1;
		line[len - 1] = '\n';
	}

	if (lines == LINES_FILE)
		file = open_lines();
	write_line(file >= 0 ? file : STDERR_FILENO, line, len);
	if (file >= 0)
		close(file);
}

enum report_mode { REPORT_KEEP, REPORT_PRINT };

/* `more`: reports of the kind that were left out since the last. */
static void report_this(enum report_mode mode, enum cause cause, uint32_t qpn, uint32_t more,
			const char *fmt, va_list args) __attribute__((format(printf, 5, 0)));

static void report_this(enum report_mode mode, enum cause cause, uint32_t qpn, uint32_t more,
			const char *fmt, va_list args)
{
	struct arena_cause report = { .cause = cause, .qpn = qpn };
	int saved = errno;
	void *arena;
	int len;

	pthread_once(&lines_once, read_environment);
	arena = atomic_load_explicit(&ring_arena, memory_order_acquire);
	if (!arena && lines == LINES_OFF)
		goto out;

	report.time_ns = clock_realtime_ns();
	len = snprintf(report.text, sizeof(report.text), "%s%s", cause_sentence(cause),
		       fmt && *fmt ? ": " : "");
	if (fmt && len < (int)sizeof(report.text)) {
		errno = saved; /* for %m */
		len += vsnprintf(report.text + len, sizeof(report.text) - len, fmt, args);
	}
	if (more && len < (int)sizeof(report.text))
		snprintf(report.text + len, sizeof(report.text) - len,
			 " (and %u more since the last report)", more);
	if (arena)
		keep(arena, &report);
	if (lines != LINES_OFF && mode == REPORT_PRINT)
		print_report(&report);
out:
	errno = saved;
}

void cause_report(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	report_this(REPORT_PRINT, cause, qpn, 0, fmt, args);
	va_end(args);
}

void cause_note(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	report_this(REPORT_KEEP, cause, qpn, 0, fmt, args);
	va_end(args);
}

/*
 * What was reported last, by cause and QP. Kinds that hash to the same place displace each other,
 * which costs one more report. Threads that race there may lose a count. Neither matters, so there
 * is no lock.
 */
#define KINDS 256

static struct kind {
	_Atomic uint64_t what; /* cause << 32 | QPN */
	_Atomic uint64_t quiet_until_ns;
	_Atomic uint32_t left_out;
} kinds[KINDS];

/* True: to be reported; *more are left out so far. */
static bool is_due(enum cause cause, uint32_t qpn, uint32_t *more)
{
	uint64_t what = (uint64_t)cause << 32 | qpn, now_ns = clock_coarse_ns();
	struct kind *kind = &kinds[(what * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
	bool same = atomic_load_explicit(&kind->what, memory_order_relaxed) == what;

	if (same && now_ns < atomic_load_explicit(&kind->quiet_until_ns, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&kind->left_out, 1, memory_order_relaxed);
		return false;
	}
	*more = atomic_exchange_explicit(&kind->left_out, 0, memory_order_relaxed);
	if (!same)
		*more = 0;
	atomic_store_explicit(&kind->quiet_until_ns, now_ns + UINT64_C(1000000000),
			      memory_order_relaxed);
	atomic_store_explicit(&kind->what, what, memory_order_relaxed);
	return true;
}

void cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	uint32_t more;
	va_list args;

	if (!is_due(cause, qpn, &more))
		return;
	va_start(args, fmt);
	report_this(REPORT_PRINT, cause, qpn, more, fmt, args);
	va_end(args);
}

static unsigned row_of(enum cause cause)
{
	return (unsigned)cause < CAUSE_COUNT ? cause : CAUSE_COUNT;
}

const char *cause_name(enum cause cause)
{
	return row_of(cause) < CAUSE_COUNT ? causes[cause].name : "UNKNOWN";
}

const char *cause_sentence(enum cause cause)
{
	return row_of(cause) < CAUSE_COUNT ? causes[cause].sentence : "Unknown cause";
}

const char *cause_remedy(enum cause cause)
{
	if (row_of(cause) < CAUSE_COUNT)
		return causes[cause].remedy;
	return "Use the `verbatim` of the version that the program runs with.";
}
