/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP ends - shared by the programs that measure plain UDP: addresses, the clock, errors.
 *
 * The name in messages is the program's own (program_invocation_short_name).
 */
#ifndef TESTS_BENCH_UDP_END_H
#define TESTS_BENCH_UDP_END_H

#include <netinet/in.h>
#include <stdint.h>

#include "packet/icrc.h"

/* Prints what failed, and errno, and ends the program. */
_Noreturn void udp_end_fail(const char *what);
/* CLOCK_MONOTONIC. */
int64_t udp_end_now_ns(void);
/* Parses an IPv4 address and a port; ends the program if that fails. */
struct sockaddr_in udp_end_address(const char *address, const char *port);
/* The addresses and ports in the ICRC of a packet from one to the other. */
struct icrc_path udp_end_path(const struct sockaddr_in *from, const struct sockaddr_in *to);
/* A UDP socket with these flags, bound to it. */
int udp_end_open(const char *port, const char *address, int flags);

#endif
