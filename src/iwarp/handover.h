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
#include <stddef.h>
#include <stdint.h>

#include "iwarp/mpa_startup.h"
#include "iwarp/same_host.h"

/*
 * Whether this QP can get a stream, before the peer is told so. 0, or EINVAL with a cause, as of
 * verbatim_iwarp_attach.
 */
int verbatim_iwarp_check(uint32_t qpn) __attribute__((weak));

/*
 * Whether the connection of this QP to this address (IPv4-mapped, or IPv6) may be by shared memory;
 * *place is this end's then. 0, or EOPNOTSUPP: it goes by TCP.
 */
int verbatim_iwarp_here(uint32_t qpn, const uint8_t peer[16], struct same_host_place *place)
	__attribute__((weak));

/*
 * Links with the process of the peer's place. Blocks while verbatimd is asked (CTL_REQUEST_MS). 0,
 * or EHOSTUNREACH with a cause.
 */
int verbatim_iwarp_meet(const struct same_host_place *peer) __attribute__((weak));

/*
 * The QP goes to RTS, and sends nothing until it is attached. *hold names this hold, and is not 0.
 * 0, or an errno as of verbatim_iwarp_check.
 */
int verbatim_iwarp_hold(uint32_t qpn, uint32_t *hold) __attribute__((weak));

/* The connection does not come about: the QP goes to ERR, if it is still held by this. */
void verbatim_iwarp_abandon(uint32_t qpn, uint32_t hold) __attribute__((weak));

/*
 * The TCP socket belongs to the QP from now on, and the QP goes to RTS. MPA's start-up is over: the
 * next bytes are those of an FPDU. `ended(arg)` is called once, by a thread of libibverbs without
 * locks, when the connection has ended and the QP is in ERR, or was reset or destroyed. It may not
 * wait. `hold`: the QP's, or 0 if it is not held. 0, or an errno with a cause, and the socket is
 * still the caller's: EINVAL (no such QP, or it is not one of an RNIC in INIT or RTR, or held),
 * ENOMEM.
 */
int verbatim_iwarp_attach(uint32_t qpn, int fd, const struct mpa_agreed *agreed, uint32_t hold,
			  void (*ended)(void *arg), void *arg) __attribute__((weak));

/*
 * The same for a connection by shared memory, to a place that was met. MPA's start-up and the
 * initiator's frame (iwarp/same_host.h) are over; `first` are this end's next bytes. Besides,
 * ECONNREFUSED: the QP at that place is not connected to this one, or its process has ended.
 */
struct verbatim_iwarp_shared {
	const struct mpa_agreed *agreed;
	uint32_t hold;
	struct same_host_place peer;
	const void *first;
	size_t first_bytes;
};
int verbatim_iwarp_share(uint32_t qpn, int fd, const struct verbatim_iwarp_shared *shared,
			 void (*ended)(void *arg), void *arg) __attribute__((weak));

/*
 * Ends the stream that was attached with this `arg`, if it is still the QP's. `ended` tells when.
 */
enum verbatim_iwarp_end {
	VERBATIM_IWARP_END,   /* in good order, as ibv_modify_qp to SQD does */
	VERBATIM_IWARP_ABORT, /* at once, as to ERR */
	/* in good order, by the progress thread: the caller uses no memory of the program's */
	VERBATIM_IWARP_END_LATER,
};
void verbatim_iwarp_disconnect(uint32_t qpn, const void *arg, enum verbatim_iwarp_end how)
	__attribute__((weak));

#endif
