/*
 * Answers of entry points that Verbatim does not implement.
 *
 * Each macro defines one exported function that takes no notice of its arguments and answers in
 * the way its callers understand as "not supported". Prototypes of the ABI are not repeated, so a
 * name that <infiniband/verbs.h> declares cannot be answered in a file that includes it.
 */
#ifndef VERBS_ANSWER_H
#define VERBS_ANSWER_H

#include <errno.h>
#include <stddef.h>

#include "verbs/export.h"

/* int: the error itself */
#define ANSWER_ERRNO(name)                                                                         \
	VERBS_EXPORT int name(void);                                                               \
	int name(void)                                                                             \
	{                                                                                          \
		return EOPNOTSUPP;                                                                 \
	}

/* int: -1 and errno, where a positive number would be a count or a descriptor */
#define ANSWER_MINUS_ONE(name)                                                                     \
	VERBS_EXPORT int name(void);                                                               \
	int name(void)                                                                             \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return -1;                                                                         \
	}

/* pointer: NULL and errno */
#define ANSWER_NULL(name)                                                                          \
	VERBS_EXPORT void *name(void);                                                             \
	void *name(void)                                                                           \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return NULL;                                                                       \
	}

#define ANSWER_NOTHING(name)                                                                       \
	VERBS_EXPORT void name(void);                                                              \
	void name(void)                                                                            \
	{                                                                                          \
	}

#endif
