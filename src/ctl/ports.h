/*
 * Ports - what this process keeps so that the order of its ports' sockets outlives the daemon.
 *
 * In:  the bag that came with a port (ctl_port).
 * Out: the same to the next daemon.
 */
#ifndef CTL_PORTS_H
#define CTL_PORTS_H

struct ctl_client;

/*
 * Caller holds the client's lock. Gives what was kept to a new daemon, before anybody asks that for
 * a port. One that does not want it says so, and the port goes on as it is. 0, -ENOTCONN,
 * -ETIMEDOUT.
 */
int ports_return(struct ctl_client *c);

/* At the end. */
void ports_drop(struct ctl_client *c);

#endif
