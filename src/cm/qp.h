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

/*
 * All that has arrived for the QP is in its CQs: with an adapter it is there before the program hears of the end of the
 * connection, as that takes longer. (Verbatim's ibv_query_qp sees to it.)
 */
void qp_catch_up(struct id *id);

#endif
