/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transport - which transport the devices of this process have: RoCE, or iWARP.
 *
 * VERBATIM_TRANSPORT=iwarp makes each device an RNIC (docs/design/iwarp.md). The program, the view
 * of sysfs and librdmacm read the same variable.
 */
#ifndef BASE_TRANSPORT_H
#define BASE_TRANSPORT_H

#include <stdbool.h>
#include <stdlib.h>
#include <strings.h>

static inline bool transport_is_iwarp(void)
{
	const char *value = secure_getenv("VERBATIM_TRANSPORT");

	return value && strcasecmp(value, "iwarp") == 0;
}

#endif
