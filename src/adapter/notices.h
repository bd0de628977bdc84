/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notices - the progress thread's exchange with verbatimd: it takes notices, sends the questions of
 * other threads, and looks for a new verbatimd when the connection is lost.
 *
 * In:  verbatimd's socket.
 * Out: changes of links, groups and ports (peers.h, group.h, port_open.h).
 *
 * Owner: the progress thread. It blocks only while it looks for a new verbatimd, in short attempts.
 */
#ifndef ADAPTER_NOTICES_H
#define ADAPTER_NOTICES_H

#include <stdint.h>

#include "ctl/client.h"

/* Before the progress thread runs. `epoll`: its descriptor, for the socket of each verbatimd. */
void notices_start(struct ctl_client *ctl, int epoll);

/* verbatimd's socket. */
int notices_fd(void);

/* Sends questions and takes notices; or, without a connection, goes on looking for verbatimd. */
void notices_take(void);

/* When notices_take is due although the socket is silent, CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t notices_due_ns(void);

#endif
