/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP ends - what the programs that measure plain UDP share: addresses, the clock, a way to give
 * up.
 *
 * The name in messages is the program's own (program_invocation_short_name).
 */
#ifndef TESTS_BENCH_UDP_END_H
#define TESTS_BENCH_UDP_END_H

#include <netinet/in.h>
#include <stdint.h>

#include "packet/icrc.h"

/* Says what failed, and errno, and ends the program. */
_Noreturn void udp_end_fail(const char *what);
/* CLOCK_MONOTONIC. */
int64_t udp_end_now_ns(void);
/* Ends the program if it is not one. */
struct sockaddr_in udp_end_address(const char *address, const char *port);
/* What the ICRC of a packet covers that goes from one to the other. */
struct icrc_path udp_end_path(const struct sockaddr_in *from, const struct sockaddr_in *to);
/* A UDP socket with these flags, bound to it. */
int udp_end_open(const char *port, const char *address, int flags);

#endif
