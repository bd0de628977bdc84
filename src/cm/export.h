/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported names of librdmacm.so.1, and their results.
 *
 * A function of the ABI is defined under its plain name with CM_EXPORT before it, and listed in
 * librdmacm.map, which gives it its version. All but those that return pointers answer 0, or -1
 * with errno.
 */
#ifndef CM_EXPORT_H
#define CM_EXPORT_H

#include <errno.h>

#include "cm/refusal.h"

#define CM_EXPORT __attribute__((visibility("default")))

/*
 * Converts 0 or -errno to the ABI's result, and reports a cause (cm/refusal.h) with the name of the
 * exported function that uses it.
 */
#define answer(rc) refusal_answer(__func__, rc)

/* The same where a cause was reported already: by another exported function, or with an event. */
static inline int answer_told(int rc)
{
	if (rc >= 0)
		return 0;
	errno = -rc;
	return -1;
}

#endif
