/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handshake - the requests about a connection to verbatimd; and the active end's last step.
 *
 * Any thread; blocks for one exchange with verbatimd.
 */
#ifndef CM_HANDSHAKE_H
#define CM_HANDSHAKE_H

#include "cm/id.h"

/* Of a REJ (IBA 12.6.7.2). */
#define HANDSHAKE_CONSUMER   28 /* the program refuses */
#define HANDSHAKE_VENDOR_ECE 35 /* vendor option is not supported */

/* A step that needs no parameters: CTL_CM_READY or ESTABLISH. 0 or -errno. */
int handshake_step(const struct id *id, enum ctl_type type);

/* 0; 1: no event follows, as the identifier is a child that was not accepted; -errno. */
int handshake_disconnect(const struct id *id);

/* CTL_CM_CONNECT, ACCEPT or REJECT, of which `t` has all but header and id. 0 or -errno. */
int handshake_send(const struct id *id, struct ctl_cm_request *t, enum ctl_type type);

/* The peer accepted: moves the QP to RTS, then sends the RTU. 0; -errno: a REJ was sent. */
int handshake_finish(struct id *id);

#endif
