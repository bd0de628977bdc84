/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exchange - a request to verbatimd and its reply.
 *
 * Ports that a new daemon does not know yet (kept_ports.h) go before any request.
 *
 * Any thread.
 */
#ifndef CTL_EXCHANGE_H
#define CTL_EXCHANGE_H

#include <stddef.h>

#include "ctl/header.h"

struct ctl_client;
struct fdmsg;

/*
 * Sends a request and waits for its reply, of the given type and length; keeps the notices that
 * come in between. 0, -ENOTCONN, -ETIMEDOUT. The descriptors in the reply are the caller's.
 */
int exchange_request(struct ctl_client *c, struct ctl_header *request, size_t len,
		     enum ctl_type reply_type, size_t reply_len, struct fdmsg *reply);

/*
 * Sends a request without waiting. Its reply comes as a notice, or is dropped if there is none of
 * its kind. 0; -EAGAIN the socket is full, or another thread is in a call; -ENOTCONN.
 */
int exchange_send(struct ctl_client *c, struct ctl_header *request, size_t len);

#endif
