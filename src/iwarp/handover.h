/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handover - how librdmacm.so.1 gives libibverbs.so.1 the stream of an established connection.
 *
 * libibverbs.so.1 exports these (VERBATIM_1); they are NULL in another implementation's. Any
 * thread; none waits for a peer. The caller holds no lock that `ended` takes.
 */
#ifndef IWARP_HANDOVER_H
#define IWARP_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "iwarp/mpa_startup.h"

/*
 * Whether this QP can get a stream, before the peer is told so. 0, or EINVAL with a cause, as of
 * verbatim_iwarp_attach.
 */
int verbatim_iwarp_check(uint32_t qpn) __attribute__((weak));

/*
 * The TCP socket belongs to the QP from now on, and the QP goes to RTS. MPA's start-up is over: the
 * next bytes are those of an FPDU. `ended(arg)` is called once, by a thread of libibverbs without
 * locks, when the connection has ended and the QP is in ERR, or was reset or destroyed. It may not
 * wait. 0, or an errno with a cause, and the socket is still the caller's: EINVAL (no such QP, or
 * it is not one of an RNIC in INIT or RTR), ENOMEM.
 */
int verbatim_iwarp_attach(uint32_t qpn, int fd, const struct mpa_agreed *agreed,
			  void (*ended)(void *arg), void *arg) __attribute__((weak));

/*
 * Ends the stream that was attached with this `arg`, if it is still the QP's: in good order, as
 * ibv_modify_qp to SQD does, or at once (`abort`), as to ERR. `ended` tells when.
 */
void verbatim_iwarp_disconnect(uint32_t qpn, const void *arg, bool abort) __attribute__((weak));

#endif
