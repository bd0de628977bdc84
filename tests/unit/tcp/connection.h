/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection - two ends of a TCP connection over loopback, in one process. */
#ifndef TESTS_UNIT_TCP_CONNECTION_H
#define TESTS_UNIT_TCP_CONNECTION_H

/*
 * bytes: of the buffer that `fd` sends from, and that `peer` receives into; 0: the kernel lets them
 * grow. 0 or -1.
 */
int connection_make(int *fd, int *peer, int bytes);

#endif
