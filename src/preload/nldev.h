/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nldev - answers requests of NETLINK_RDMA as the kernel's nldev does (rdma/rdma_netlink.h).
 *
 * In:  the bytes of a request; the devices of the view, what the tree's files say of them, and
 *      the resources of all processes.
 * Out: messages: GET and PORT_GET (devices and ports), RES_GET (how many resources), RES_QP_GET and
 *      RES_CM_ID_GET (of identifiers those that listen). All else is refused with -EOPNOTSUPP.
 *
 * A device's number is that of its network interface. No state. Makes system calls and allocates;
 * what is about resources may block (preload/resources.h). Any thread.
 */
#ifndef PRELOAD_NLDEV_H
#define PRELOAD_NLDEV_H

#include "preload/answer.h"

/*
 * Adds the answers to all requests in `bytes`, which is aligned to 4; `port` is the nl_pid of the
 * socket. What does not work is in the answers; answer->error says that there was no memory for
 * them.
 */
void nldev_answer(const void *bytes, size_t len, uint32_t port, struct answer *answer);

#endif
