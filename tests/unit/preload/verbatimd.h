/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbatimd - what it answers to the files of counters, in the place of ctl/observe.c. */
#ifndef VERBATIMD_H
#define VERBATIMD_H

#include "ctl/observe.h"

extern int verbatimd_error; /* 0, or why it cannot be asked: -errno */
extern uint64_t verbatimd_counts[CTL_COUNTS];
extern char verbatimd_device[CTL_DEVICE_BYTES]; /* which was asked for last */
extern unsigned verbatimd_asked;		/* how often */
extern uint64_t verbatimd_now_ns;		/* on any clock */

#endif
