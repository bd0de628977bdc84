/*
 * Exported names of librdmacm.so.1, and how they answer.
 *
 * A function of the ABI is defined under its plain name with CM_EXPORT before it, and listed in
 * librdmacm.map, which gives it its version. All but those that return pointers answer 0, or -1
 * with errno.
 */
#ifndef CM_EXPORT_H
#define CM_EXPORT_H

#include <errno.h>

#define CM_EXPORT __attribute__((visibility("default")))

/* 0, or a negative errno, as the ABI says it. */
static inline int answer(int rc)
{
	if (rc >= 0)
		return 0;
	errno = -rc;
	return -1;
}

#endif
