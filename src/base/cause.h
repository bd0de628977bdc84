/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cause - why something failed: the list of reasons, and the ring where each occurrence is kept.
 *
 * In:  a cause of cause.def, the QP it happened to, its values.
 * Out: an entry of the ring in this process's arena, for `verbatim explain`; with VERBATIM_EXPLAIN
 *      also a line to standard error, or to a file.
 *
 * Any thread may report at any time. Takes no lock, allocates nothing, preserves errno, raises no
 * SIGPIPE. Blocks only where VERBATIM_EXPLAIN asks for lines and their reader is slow. A caller
 * reports a repeated event once (FLUSHED and QUEUE_FULL once a QP), or rate-limited.
 *
 * The number of a cause is the vendor_err of its completions.
 */
#ifndef BASE_CAUSE_H
#define BASE_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct arena_cause;

enum cause {
	CAUSE_NONE = 0,
#define X(name, sentence, remedy) CAUSE_##name,
#include "base/cause.def"
#undef X
	CAUSE_COUNT, /* one more than the highest */
};

/*
 * Reports go to this arena's ring from now on; NULL: to none. The arena has to stay mapped until it
 * is replaced and no other thread reports. Reads VERBATIM_EXPLAIN if nothing did before: 1 is
 * standard error, 0 or empty is off, anything else is the path of a file to append to.
 */
void cause_init(void *arena);

/*
 * Without an arena the report goes only where VERBATIM_EXPLAIN says. qpn 0: none; fmt may be NULL.
 */
void cause_report(enum cause cause, uint32_t qpn, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The same for what is not a failure: a normal end, an event that the program asked for, an error
 * that programs probe for. `verbatim explain` shows it; VERBATIM_EXPLAIN does not print it.
 */
void cause_note(enum cause cause, uint32_t qpn, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * cause_report for events that a peer or the network can cause at any rate. Each cause of a QP is
 * reported once a second at most, with the number of those left out. A report that is left out
 * costs one reading of the clock.
 */
void cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* For the child of a fork: it has no arena until the next cause_init. */
void cause_reset_after_fork(void);

/* Static text, also for numbers that are not in the list (of another version's arena). */
const char *cause_name(enum cause cause);
const char *cause_sentence(enum cause cause);
const char *cause_remedy(enum cause cause);

/*
 * For readers of any process: copies one entry of a ring. False if there is none, or if it was
 * being written. The copy's text ends in 0; all else in it is as untrusted as the arena.
 */
bool cause_read(const struct arena_cause *entry, struct arena_cause *copy);

#endif
