/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends of stream rsockets in one process, over the loopback interface. */
#ifndef TEST_RSOCKET_PAIR_H
#define TEST_RSOCKET_PAIR_H

#include <netinet/in.h>

#define MS	1000
#define LONG_MS (20 * MS)

struct sockaddr_in loopback(void);

/* A blocking listener, and its address. */
int make_listener(struct sockaddr_in *addr);

/* A non-blocking rsocket that connects there. */
int start_connecting(const struct sockaddr_in *addr);

/* Expects one of the events within LONG_MS. */
void wait_for(int fd, short events);

/* fds[0] connected, fds[1] was accepted, and both may send. RDMA_IOMAPSIZE is `mappings`. Both
 * block. */
void make_pair(int fds[2], int mappings);
void close_pair(int fds[2]);

#endif
