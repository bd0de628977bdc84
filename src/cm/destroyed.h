/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destroyed - identifiers that the program destroyed while no verbatimd ran: the session's store
 * still has them, so the next verbatimd restores them, and is told to destroy them.
 *
 * The caller holds the session's lock (cm/session.c).
 */
#ifndef CM_DESTROYED_H
#define CM_DESTROYED_H

#include <stdint.h>

/* Without memory for it the identifier stays until the program ends. */
void destroyed_add(uint32_t id);
/* The one that was added last; 0: there is none. */
uint32_t destroyed_last(void);
void destroyed_drop_last(void);
void destroyed_clear(void);

#endif
