/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/text.h"

#include <stdio.h>

void text_escape(char *out, size_t out_len, const char *from, size_t from_len)
{
	size_t used = 0;

	for (size_t i = 0; i < from_len && from[i]; i++) {
		unsigned char c = (unsigned char)from[i];
		char one[5];
		int len;

		if (c >= ' ' && c <= '~' && c != '\\')
			len = snprintf(one, sizeof(one), "%c", c);
		else
			len = snprintf(one, sizeof(one), "\\x%02x", c);
		if (used + (size_t)len >= out_len)
			break;
		for (int j = 0; j < len; j++)
			out[used++] = one[j];
	}
	out[used] = 0;
}
