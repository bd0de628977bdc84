/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Networks - two network namespaces, joined by a veth pair, for the two ends of a connection.
 *
 * In:  VERBATIM_TEST_NETWORKS=2 in the environment.
 * Out: end a, and whoever runs the tests, in the first one; a process of end b may enter the
 *      second.
 *
 * The namespaces have no names, only descriptors: they are gone with the processes in them.
 */
#ifndef CONTRACT_NETWORKS_H
#define CONTRACT_NETWORKS_H

#include <stdbool.h>

/* The environment asks for them: then cases of TWO_NAMESPACES run, and no others. */
bool networks_wanted(void);

/*
 * Makes both and leaves the calling process, which has one thread, in the first. NULL, or what
 * cannot be done here (static memory).
 */
const char *networks_make(void);

/* Moves the calling process, which has one thread and no device open yet, to the second. */
void networks_enter_second(void);

#endif
