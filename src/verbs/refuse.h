/*
 * Refuse - how a verb says no: the errno for the program, the cause for its user.
 */
#ifndef VERBS_REFUSE_H
#define VERBS_REFUSE_H

#include <errno.h>

#include "base/cause.h"

/* Reports the cause with its values (fmt may be NULL), sets errno to `error` and returns it. */
int refuse(int error, enum cause cause, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * Turns 0 or a -errno of the layers below, which reported the cause, into 0 or a positive errno,
 * and sets errno if there is one.
 */
static inline int answer_of(int ret)
{
	if (ret < 0)
		errno = -ret;
	return -ret;
}

/* The answer about an object that live_object_exists or live_object_remove did not find: ENOENT. */
int refuse_unknown(const char *verb);

#endif
