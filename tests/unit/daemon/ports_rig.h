/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rig of the tests of verbatimd's UDP ports: an address of each test's own, packets whose marks
 * tell who got them, and agents, processes that do as they are told.
 */
#ifndef TESTS_PORTS_RIG_H
#define TESTS_PORTS_RIG_H

#include <sys/socket.h>

#include "harness.h"

enum order {
	ORDER_JOIN,	 /* answers its slot */
	ORDER_PORT,	 /* answers the negative result, or 0 */
	ORDER_RECEIVE,	 /* answers the sum of the marks */
	ORDER_RECONNECT, /* answers the negative result */
	ORDER_INODE,	 /* asks again; answers the socket's inode */
	ORDER_LOSE,	 /* waits until the daemon is gone */
};

int ports_setup(void **state);
/* 127.x.y.z, for this test only. */
void this_address(uint8_t gid[CTL_GID_BYTES]);
socklen_t to_socket_address(const uint8_t *gid, struct sockaddr_storage *out);
/*
 * A socket that is no client's, bound to the address's port without SO_REUSEPORT. -1: it is taken.
 */
int bind_plain(const uint8_t *gid);
void wait_until_free(const uint8_t *gid);
/*
 * Packets for a QP of the slot, one datagram or a GSO batch; `mark` comes back from receive_marks.
 */
void send_marks(const uint8_t *gid, unsigned slot, uint32_t mark, int packets);
/* The sum of the marks of all packets: each test's marks are powers of ten. */
uint64_t receive_marks(int fd);
int get_port(struct ctl_client *c, const uint8_t *gid, char why[CTL_WHY_BYTES]);
int open_port(struct ctl_client *c, const uint8_t *gid);
uint64_t ask(struct worker *w, enum order order);
/* An agent with a slot, and with the port. */
unsigned start(struct worker *w, bool port);
/* Each of three slots gets its own packets, single and in GSO batches, and none of others. */
void check_steering(struct worker *agents, const unsigned *slots, int count);
void kill_daemon(void);

#endif
