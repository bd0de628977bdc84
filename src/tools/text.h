/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text - escapes strings that other processes wrote, for a terminal.
 *
 * In:  bytes, with or without a 0 at the end.
 * Out: printable ASCII; other bytes, and the backslash, as \xNN.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stddef.h>

/* The room that from_len bytes need at most, with the 0 at the end. */
#define TEXT_ROOM(from_len) ((from_len)*4 + 1)

/* Reads up to the first 0 or `from_len` bytes. Truncates the result to `out_len` bytes. */
void text_escape(char *out, size_t out_len, const char *from, size_t from_len);

#endif
