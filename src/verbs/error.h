/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error - turns errors of the layers below into the errno conventions of verbs, with a cause.
 */
#ifndef VERBS_ERROR_H
#define VERBS_ERROR_H

#include <errno.h>

#include "base/cause.h"

/* Reports the cause with its values (`fmt` may be NULL), sets errno to `error` and returns it. */
int error_report(int error, enum cause cause, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Turns -errno of the layers below, which reported the cause, into errno: sets and returns it. 0
 * stays.
 */
static inline int error_from(int ret)
{
	if (ret < 0)
		errno = -ret;
	return -ret;
}

/* Reports that the program passed an object that does not exist (any more). Returns ENOENT. */
int error_unknown_object(const char *verb);

#endif
