/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Option - rsetsockopt and rgetsockopt.
 *
 * Sizes and queues are fixed once a connection is asked for. Options that TCP has and that mean
 * nothing here are kept and shown. Which there are: verbatim's librdmacm manual page.
 */
#ifndef RSOCKET_OPTION_H
#define RSOCKET_OPTION_H

#include <sys/socket.h>

#include "rsocket/stream.h"

/* -errno: EINVAL: too short, or too late; ENOPROTOOPT: unknown. */
int option_set(struct stream *s, int level, int name, const void *value, socklen_t length);
int option_get(struct stream *s, int level, int name, void *value, socklen_t *length);

#endif
