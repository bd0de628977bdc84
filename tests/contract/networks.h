/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Networks - two network namespaces, joined by a veth pair, for the two ends of a connection.
 *
 * In:  VERBATIM_TEST_NETWORKS=2 in the environment.
 * Out: end a and the runner in the first one; a process of end b may enter the second.
 *
 * The namespaces have no names, only descriptors, so they end with the processes in them.
 */
#ifndef CONTRACT_NETWORKS_H
#define CONTRACT_NETWORKS_H

#include <stdbool.h>

/* VERBATIM_TEST_NETWORKS=2: cases of TWO_NAMESPACES run, and no others. */
bool networks_wanted(void);

/*
 * Makes both and leaves the calling process, which has one thread, in the first. NULL, or which
 * step failed (static memory).
 */
const char *networks_make(void);

/* Whether the interface has a carrier: it is known some milliseconds after both ends are up. */
bool networks_is_running(const char *interface);

/* Moves the calling process, which has one thread and no device open yet, to the second. */
void networks_enter_second(void);

#endif
