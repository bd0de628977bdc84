/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram - UD sends and their delivery to the QPs of this host.
 *
 * A UD QP stays on this path wherever its datagrams go. This path hands those for other hosts, and
 * one copy of each multicast, to the adapter (shm_env.datagrams_to_wire).
 *
 * In:  UD WQEs; datagram records.
 * Out: datagram records to the process of the destination QP (multicast: to every process with an
 *      attached QP, our own included); receive completions with 40 bytes of GRH.
 *
 * Unreliable: a datagram without destination, with a wrong Q_Key, without a receive or with a short
 * one is dropped, with a cause at the receiver; the sender's request succeeds (CONTRACT 25).
 * Callers hold the QP's lock, for delivery also the link's rx_lock.
 */
#ifndef SHM_DATAGRAM_H
#define SHM_DATAGRAM_H

#include "shm/sendq.h"

enum issue_result datagram_send(struct shm_qp *lq, struct wqe *wqe);

/* To one QP. `payload` is GRH and data, header->bytes long. */
void datagram_deliver(struct qp *qp, const struct record_header *header, const uint8_t *payload);

/* To all QPs of this process that are attached to the group in the GRH. No QP lock is held. */
void datagram_deliver_group(const struct record_header *header, const uint8_t *payload);

#define MULTICAST_QPN 0xffffff

#endif
