/*
 * Ports - what this process keeps so that the order of its ports' sockets outlives the daemon.
 *
 * In:  the descriptor store that came with a port (ctl_port).
 * Out: the same to the next daemon.
 */
#ifndef CTL_PORTS_H
#define CTL_PORTS_H

#include <stdbool.h>
#include <stdint.h>

struct ctl_client;
struct ctl_port_answer;
struct fdmsg;

/*
 * Caller holds the client's lock. There is a new daemon: what was kept is given back to it (ports_return)
 * before anybody asks it for a port. One that does not want it says so, which nobody reads, and the port goes
 * on as it is.
 */
void ports_owe(struct ctl_client *c);

/* Caller holds the client's lock. Does not wait. 0: nothing is owed; -EAGAIN the socket is full; -ENOTCONN. */
int ports_return(struct ctl_client *c);

/* Caller holds the client's lock. As ctl_port_ask. */
int ports_ask_for(struct ctl_client *c, const uint8_t *gid, uint32_t ifindex);

/* Caller holds the client's lock. The reply to what was asked so. False: it was not, or is forgotten. */
bool ports_take_answer(struct ctl_client *c, struct fdmsg *m, struct ctl_port_answer *out);

/* At the end. */
void ports_drop(struct ctl_client *c);

#endif
