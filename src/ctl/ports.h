/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports - keeps the descriptor stores of this process's ports, and gives them to the next daemon.
 *
 * In:  the descriptor store that came with a port (ctl_port).
 * Out: the same to the next daemon, which so knows the order of the port's sockets.
 */
#ifndef CTL_PORTS_H
#define CTL_PORTS_H

#include <stdbool.h>
#include <stdint.h>

struct ctl_client;
struct ctl_port_answer;
struct fdmsg;

/*
 * Caller holds the client's lock. There is a new daemon: ports_return is to give it the descriptor
 * stores before any request for a port. If the daemon refuses one, its answer is dropped, and the
 * port goes on as it is.
 */
void ports_owe(struct ctl_client *c);

/*
 * Caller holds the client's lock. Does not wait. 0: nothing is owed; -EAGAIN the socket is full;
 * -ENOTCONN.
 */
int ports_return(struct ctl_client *c);

/* Caller holds the client's lock. As ctl_port_ask. */
int ports_ask_for(struct ctl_client *c, const uint8_t *gid, uint32_t ifindex);

/*
 * Caller holds the client's lock. Takes the reply to ports_ask_for. False: there was no such
 * request, or it is forgotten.
 */
bool ports_take_answer(struct ctl_client *c, struct fdmsg *m, struct ctl_port_answer *out);

/* Closes all; the client ends. */
void ports_drop(struct ctl_client *c);

#endif
