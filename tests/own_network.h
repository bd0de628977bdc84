/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Own network - a network namespace for a test's process.
 *
 * In:  nothing; as an ordinary user, user namespaces.
 * Out: a process that is root of its network: the programs that it starts, like ip(8), have its
 *      rights.
 */
#ifndef OWN_NETWORK_H
#define OWN_NETWORK_H

#include <stdbool.h>

/*
 * The calling process, which has one thread, is in a new namespace afterwards. False, and errno: it
 * is not.
 */
bool own_network_enter(void);

#endif
