/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text - makes strings that other processes wrote fit to print on a terminal.
 *
 * In:  bytes that need not end in 0.
 * Out: printable ASCII; everything else, and the backslash, as \xNN.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stddef.h>

/* What from_len bytes can become, with the 0 at the end. */
#define TEXT_ROOM(from_len) ((from_len)*4 + 1)

/* Reads up to the first 0 or from_len bytes; what does not fit in out_len is left out. */
void text_escape(char *out, size_t out_len, const char *from, size_t from_len);

#endif
