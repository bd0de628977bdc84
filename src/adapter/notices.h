/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notices - the progress thread's exchange with verbatimd: it takes notices, sends the questions of
 * other threads, and looks for a new verbatimd when the connection is lost.
 *
 * In:  verbatimd's socket; with VERBATIM_SOCKET_DIR there are two verbatimds, that of the directory
 *      for links, and that of the network namespace for ports and groups.
 * Out: changes of links, groups and ports (peers.h, group.h, port_open.h).
 *
 * Owner: the progress thread. It blocks only while it looks for a new verbatimd, in short attempts.
 */
#ifndef ADAPTER_NOTICES_H
#define ADAPTER_NOTICES_H

#include <stdint.h>

#include "ctl/client.h"

/*
 * Before notices_start: another connection has the ports and groups. NULL: the same one, as from
 * the beginning.
 */
void notices_take_ports_from(struct ctl_client *ports);

/* Before the progress thread runs. `epoll`: its descriptor, for the socket of each verbatimd. */
void notices_start(struct ctl_client *ctl, int epoll);

/* The socket of the verbatimd that has the links. */
int notices_fd(void);

/* Sends questions and takes notices; or, of a lost connection, goes on looking for verbatimd. */
void notices_take(void);

/* When notices_take is due although the socket is silent, CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t notices_due_ns(void);

#endif
