/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP - the QP of an identifier, with the queues that it has when the program gave none.
 *
 * Any thread; blocks no longer than the verbs do.
 */
#ifndef CM_QP_H
#define CM_QP_H

#include "cm/id.h"

/*
 * Through INIT to RTR; to RTS; to ERR. Without a QP the first two fail, the last does nothing. 0 or
 * -errno.
 */
int qp_to_rtr(struct id *id);
int qp_to_rts(struct id *id);
int qp_fail(struct id *id);

#endif
