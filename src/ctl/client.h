/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control client - this process's connection to verbatimd: its slot, its peers, its groups.
 *
 * In:  the process's arena and wake-up eventfd; the slots of peers, from QPNs.
 * Out: descriptors that reach a peer; notices of new links, deaths and multicast changes.
 *
 * No threads of its own. All functions but the closing ones may be called from any thread at any
 * time. Requests block for one exchange with the daemon, CTL_REQUEST_MS at most (CTL_CONNECT_MS if
 * the machine is so busy that the daemon gets no processor, ctl/answer.h); ctl_next_notice never
 * blocks. Every descriptor is close-on-exec; SIGPIPE is never raised.
 *
 * Order of calls: ctl_connect; ctl_fd into a level-triggered epoll; when it is readable or the wake
 * eventfd was written, ctl_next_notice until it gives 0; on -ENOTCONN, ctl_reconnect; at the end
 * ctl_close. A child of fork() calls ctl_close_in_child first and may then connect anew: it is
 * another process with another slot.
 *
 * What a caller has to expect:
 *  - A link comes twice when both ends ask at the same time, and again after a reconnection, maybe
 *    with other memory (daemon/links.h). If a LINK notice or a result of ctl_peer is for a slot and
 *    pid whose link is in use, the caller keeps that, and moves to the memory unless both ends have
 *    started with the old one. Links outlive the daemon that made them.
 *  - A new daemon does not know the links of an earlier one. After ctl_reconnect the caller calls
 *    ctl_peer or ctl_peer_ask once for every linked peer, and closes the descriptors that it gets,
 *    so that the daemon announces that peer's death again. -ENOENT means that the peer has died or
 *    has not reconnected yet. The caller attaches its multicast memberships again, too.
 *  - Ports outlive the daemon, too: the client gives their descriptor stores to the next one, and
 *    does not wait for its answers.
 *  - If the daemon disconnects this process (-ENOTCONN), it tells the peers that the process has
 *    died.
 *  - After -ETIMEDOUT it is unknown whether the daemon has executed the request.
 */
#ifndef CTL_CLIENT_H
#define CTL_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/client_types.h"
#include "ctl/protocol.h"

struct ctl_client;

/*
 * Connects to the system's daemon or the user's own, starts that if need be, and gets a slot.
 * arena_fd, heap_fd: memfds sealed with F_SEAL_SHRINK and F_SEAL_GROW. wake_fd: an eventfd. Peers
 * write it, and so does a call of this client that has queued a notice. The descriptors stay the
 * caller's, and open as long as the client exists. comm: shown by tools, cut to 15 characters. 0,
 * or -errno with one sentence in why (no newline): -ETIMEDOUT after CTL_CONNECT_MS, or after
 * CTL_REQUEST_MS if a daemon runs and hangs, unless a service manager listens for it; -EPERM
 * another user's process holds the daemon's name, -ENOENT, -EACCES and others of launch_daemon,
 * -EINVAL the arena or the heap is not sealed, -ENOSPC no slot is free, -EDQUOT none for this user,
 * -EPROTONOSUPPORT the daemon is of another version.
 */
int ctl_connect(struct ctl_client **out, int arena_fd, int wake_fd, int heap_fd, const char *comm,
		char *why, size_t why_len);

/*
 * The same at the daemon of VERBATIM_SOCKET_DIR, which serves processes of several network
 * namespaces: slots and peers. It may be of another network namespace, so it is of no use for ports
 * and groups. *out is NULL, and the result 0, if the variable is not set. -EINVAL, -ENAMETOOLONG or
 * -EPERM: as of sockname_space_of_shared.
 */
int ctl_connect_shared(struct ctl_client **out, int arena_fd, int wake_fd, int heap_fd,
		       const char *comm, char *why, size_t why_len);

/*
 * Connects the process, which has its slot from there, to the system's daemon or the user's own as
 * well, for ports and groups. As ctl_connect, and -EXDEV: that daemon serves a process that does
 * not share this directory; -EOPNOTSUPP: the system's daemon serves no such processes; -EAGAIN: the
 * slot's last process, or a child of it, has not ended yet.
 */
int ctl_join(struct ctl_client **out, const struct ctl_client *shared, char *why, size_t why_len);

/* 1..CTL_SLOT_MAX; the same for the life of the client. */
unsigned ctl_slot(const struct ctl_client *c);

/* The daemon's pid, for messages. */
pid_t ctl_daemon_pid(struct ctl_client *c);

/* Readable when there may be a notice. ctl_reconnect replaces the descriptor. */
int ctl_fd(struct ctl_client *c);

/*
 * The descriptors of the process that has this slot, and a link with it. 0; -ENOENT no such
 * process of this user; -EMFILE or -ENOMEM, here or in the daemon; -ENOTCONN the daemon is gone;
 * -ETIMEDOUT.
 */
int ctl_peer(struct ctl_client *c, unsigned slot, struct ctl_peer_info *out);

/*
 * The same without waiting: the answer comes as a notice, CTL_LINK or CTL_NO_PEER. It may be lost,
 * so the caller asks again after a while. 0; -EAGAIN the connection is busy, or full; -ENOTCONN.
 */
int ctl_peer_ask(struct ctl_client *c, unsigned slot);

/*
 * Memberships count per process: the process is a member until it has detached as often as it
 * attached. 0; -ENOENT more detached than attached; -ENOSPC; -ENOTCONN; -ETIMEDOUT.
 */
int ctl_mcast_attach(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES]);
int ctl_mcast_detach(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES]);

/*
 * ctl_mcast_attach for a new daemon, without waiting, and without an answer. 0; -EAGAIN the
 * connection is busy, or full; -ENOTCONN.
 */
int ctl_mcast_attach_again(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES]);

/*
 * Asks for the members of a group without waiting, as ctl_peer_ask: CTL_MEMBERS with *question. Bit
 * s % 64 of word s / 64: slot s is a member, maybe this one.
 */
int ctl_mcast_ask(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES], uint32_t *question);

/*
 * This process's socket of UDP port 4791 of a local address: datagrams for QPNs of its slot arrive
 * there. Non-blocking, bound, never to be connected; *fd is the caller's to close. Called again, it
 * gives another descriptor of the same socket. `ifindex` counts for IPv6 link-local addresses.
 * Datagrams that came before this process had the socket were dropped. The port stays this
 * process's until it ends or calls ctl_close.
 *
 * 0, or -errno with one sentence in why (no newline):
 * - -EADDRNOTAVAIL: not an address of this host;
 * - -EADDRINUSE: another process has the port; the sentence names it if it is known;
 * - -EAGAIN: for CTL_REQUEST_MS (the call asks again in that time) a process that has the port has
 *   not returned to a new daemon, or the port of one that ended was not closed: try later;
 * - -ENOTCONN: the connection was lost, and not restored within half a second;
 * - -EMFILE, -ENOSPC, -ETIMEDOUT and others.
 */
int ctl_port(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex, int *fd,
	     char *why, size_t why_len);

/*
 * Asks for a port once, without waiting, as ctl_peer_ask: CTL_PORT_OPEN. If its error is -EAGAIN,
 * the caller asks again.
 */
int ctl_port_ask(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex);

/*
 * Gives the ports to the daemon of the last ctl_reconnect that could not be sent then, as every
 * request does first. 0: none is left; -EAGAIN: some are, try again later; -ENOTCONN.
 */
int ctl_return_ports(struct ctl_client *c);

/*
 * 1: *out is the next notice; 0: none now; -ENOTCONN: none, and the daemon is gone. Gives 0 while
 * another thread is in a call, which then writes the wake eventfd if there is a notice.
 */
int ctl_next_notice(struct ctl_client *c, struct ctl_notice *out);

/*
 * After -ENOTCONN: finds the daemon again, or starts another, and takes up the same slot. Other
 * calls answer -ENOTCONN meanwhile. ctl_fd is closed and replaced: take it out of epoll first. 0;
 * -EALREADY another thread reconnects, or the connection is not lost; -EADDRINUSE the slot is lost;
 * otherwise as ctl_connect, but -ETIMEDOUT after limit_ms: try again later. -ECONNREFUSED: the
 * system's daemon does not run, and only the system starts it: try again later.
 */
int ctl_reconnect(struct ctl_client *c, int limit_ms, char *why, size_t why_len);

/* Disconnects: for the peers this process is dead. No other call may be under way. */
void ctl_close(struct ctl_client *c);

/* In the child after fork(): closes all that is inherited, and sends nothing. */
void ctl_close_in_child(struct ctl_client *c);

#endif
