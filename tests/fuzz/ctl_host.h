/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control host - the host that the daemon under fuzz_ctl runs on: its clock, addresses, network,
 * and processes.
 *
 * In:  events: time, packets, deaths, addresses that come and go.
 * Out: system calls for the daemon, under other names (host_args in the meson.build), so that the
 *      same input gives the same run; the packets that the daemon sent.
 *
 * Its UDP sockets are real ones, bound to any port of 127.0.0.1; one byte stands for a packet. The
 * kernel does all else that the daemon does with descriptors.
 */
#ifndef CTL_HOST_H
#define CTL_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HOST_ADDRESSES 10
#define HOST_PIDS      8

struct host_address {
	uint8_t gid[16];
	uint16_t family;
	uint32_t ifindex;
	enum {
		HOST_NONE,
		HOST_OWN,
		HOST_TAKEN
	} state; /* taken: another program has UDP port 4791 */
};

/* At first the first ones are this host's. */
extern struct host_address host_addresses[HOST_ADDRESSES];

void host_begin(void);
void host_end(void);

void host_pass_ms(uint64_t ms);

/* Events of the daemon's last epoll_wait. */
extern int host_event_count;

/* A connection of the process that has this number: 0..HOST_PIDS-1. */
void host_connected(int daemon_end, unsigned process);
void host_kill(unsigned process);

/* Addresses have changed. */
void host_tell_change(void);

/* From a UDP port of `from` to the daemon's socket of `to`, if it has one. */
void host_packet(const uint8_t from[16], uint16_t port, const uint8_t to[16], const uint8_t *bytes,
		 size_t length);

/* Each packet that the daemon sends. */
extern void (*host_on_sent)(const uint8_t from[16], const uint8_t to[16], const uint8_t *bytes,
			    size_t length);

#endif
