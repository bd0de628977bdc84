/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connect - the steps of a connection: connect, accept, reject, disconnect.
 *
 * Each moves the QP, if the identifier has one, and tells verbatimd.
 */
#ifndef CM_CONNECT_H
#define CM_CONNECT_H

#include "cm/id.h"

/* The peer accepted: the QP gets ready, then the peer is told. 0 or -errno: the peer is refused. */
int connect_finish(struct id *id);

#endif
