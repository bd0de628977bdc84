/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unknown QP - packets whose destination QPN no QP here has.
 *
 * If this process has destroyed the QP, the other end did not know yet: a requester may have
 * packets on the way when the responder's QP goes, and may send some again. If the QP is another
 * process's, the network has merged the packet with packets for this process (GRO), and delivered
 * it wrongly: that is reported.
 */
#ifndef EXECUTE_UNKNOWN_QP_H
#define EXECUTE_UNKNOWN_QP_H

#include <stdint.h>

/* A packet for `qpn` came, and is dropped. */
void unknown_qp_count(uint32_t qpn);

#endif
