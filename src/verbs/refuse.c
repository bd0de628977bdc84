#include "verbs/refuse.h"

#include <stdarg.h>
#include <stdio.h>

int refuse(int error, enum cause cause, const char *fmt, ...)
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

int refuse_unknown(const char *verb)
{
	return refuse(ENOENT, CAUSE_OBJECT_UNKNOWN, "%s", verb);
}
