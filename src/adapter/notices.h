/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notices - the progress thread's exchange with verbatimd: it takes the notices, asks what other
 * threads wait for, and looks for another verbatimd when this one is lost.
 *
 * In:  verbatimd's socket.
 * Out: links, groups and ports as verbatimd tells of them (peers.h, group.h, port_open.h).
 *
 * Owner: the progress thread. It waits for verbatimd only while it looks for one, in short
 * attempts.
 */
#ifndef ADAPTER_NOTICES_H
#define ADAPTER_NOTICES_H

#include <stdint.h>

#include "ctl/client.h"

/* Before the progress thread runs. `epoll` is its: the next verbatimd's socket is added to it. */
void notices_start(struct ctl_client *ctl, int epoll);

/* verbatimd's socket. */
int notices_fd(void);

/* Asks what is wanted and takes the notices that are there; or goes on looking for verbatimd. */
void notices_take(void);

/* When it has to be called although the socket is silent, CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t notices_due_ns(void);

#endif
