/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error - the errno conventions of verbs: what a verb that fails returns to the program, and the
 * cause for its user.
 */
#ifndef VERBS_ERROR_H
#define VERBS_ERROR_H

#include <errno.h>

#include "base/cause.h"

/* Reports the cause with its values (fmt may be NULL), sets errno to `error` and returns it. */
int error_report(int error, enum cause cause, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Turns 0 or a -errno of the layers below, which reported the cause, into 0 or a positive errno,
 * and sets errno if there is one.
 */
static inline int error_from(int ret)
{
	if (ret < 0)
		errno = -ret;
	return -ret;
}

/* Reports that live_object_exists or live_object_remove did not find the object: ENOENT. */
int error_unknown_object(const char *verb);

#endif
