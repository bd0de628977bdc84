/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unknown QP - packets whose destination QPN no QP here has.
 *
 * If the QP is another process's, the network has merged the packet with packets for this process
 * (GRO), and delivered it wrongly: that is reported.
 */
#ifndef EXECUTE_UNKNOWN_QP_H
#define EXECUTE_UNKNOWN_QP_H

#include <stdint.h>

/* A packet for `qpn` came, and is dropped. */
void unknown_qp_count(uint32_t qpn);

#endif
