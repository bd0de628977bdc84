/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kept ports - verbatimd's answers to requests for UDP ports, and their descriptor stores.
 *
 * In:  replies to PORT: a socket and, from a user's own daemon, the descriptor store of the port.
 * Out: the socket; to the next daemon the descriptor store, from which it learns the order of the
 *      port's sockets.
 *
 * All functions but kept_ports_request: caller holds the client's lock. None blocks.
 */
#ifndef CTL_KEPT_PORTS_H
#define CTL_KEPT_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/protocol.h"

struct ctl_client;
struct ctl_port_answer;
struct fdmsg;

/* A request about a port, PORT or PORT_KEPT. */
struct ctl_port kept_ports_request(enum ctl_type type, const uint8_t *gid, uint32_t ifindex);

/*
 * There is a new daemon: kept_ports_return has to give it the descriptor stores before any request
 * for a port. If the daemon refuses one, its answer is dropped, and the process goes on using the
 * port.
 */
void kept_ports_owe(struct ctl_client *c);

/* Whether kept_ports_return has something to give. The only call here that needs no lock. */
bool kept_ports_is_owing(struct ctl_client *c);

/* 0: nothing is owed; else as control_send. */
int kept_ports_return(struct ctl_client *c);

/* As ctl_port_ask; else as control_send. */
int kept_ports_ask(struct ctl_client *c, const uint8_t *gid, uint32_t ifindex);

/* Takes the reply to kept_ports_ask. False: no such request is known (any more). */
bool kept_ports_take_answer(struct ctl_client *c, struct fdmsg *m, struct ctl_port_answer *out);

/* Takes the descriptors of the reply to a request for this port. Results as of ctl_port. */
int kept_ports_take(struct ctl_client *c, struct fdmsg *m, const uint8_t *gid, uint32_t ifindex,
		    int *fd, char *why, size_t why_len);

/* Closes all; the client ends. */
void kept_ports_drop(struct ctl_client *c);

#endif
