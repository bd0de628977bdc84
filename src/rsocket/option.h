/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Option - rsetsockopt and rgetsockopt of streams, rsocket(7).
 *
 * Sizes are fixed once a connection was requested. Options of TCP that have no meaning here are
 * stored and returned.
 */
#ifndef RSOCKET_OPTION_H
#define RSOCKET_OPTION_H

#include <sys/socket.h>

#include "rsocket/stream.h"

/*
 * 0 or -errno: -EINVAL (value too short, or set too late), -ENOPROTOOPT (unknown), -EFAULT (get,
 * NULL).
 */
int option_set(struct stream *s, int level, int name, const void *value, socklen_t length);
int option_get(struct stream *s, int level, int name, void *value, socklen_t *length);

#endif
