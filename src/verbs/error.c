/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/error.h"

#include <stdarg.h>
#include <stdio.h>

int error_report(int error, enum cause cause, const char *fmt, ...)
{
	char values[160] = "";
	va_list args;

	if (fmt) {
		va_start(args, fmt);
		vsnprintf(values, sizeof(values), fmt, args);
		va_end(args);
	}
	cause_report(cause, 0, "%s", values);
	errno = error;
	return error;
}

int error_unknown_object(const char *verb)
{
	return error_report(ENOENT, CAUSE_OBJECT_UNKNOWN, "%s", verb);
}
