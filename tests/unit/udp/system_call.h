/* SPDX-License-Identifier: BSD-2-Clause */
/* System call - what a syscall(2) that the linker puts before the real one (--wrap) was given. */
#ifndef TESTS_UNIT_UDP_SYSTEM_CALL_H
#define TESTS_UNIT_UDP_SYSTEM_CALL_H

#include <stdarg.h>

#define SYSTEM_CALL_ARGUMENTS 6 /* as many as there may be, as syscall(2) itself takes */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static inline void system_call_arguments(va_list args, long a[SYSTEM_CALL_ARGUMENTS])
{
	for (int i = 0; i < SYSTEM_CALL_ARGUMENTS; i++)
		a[i] = va_arg(args, long);
}

#endif
