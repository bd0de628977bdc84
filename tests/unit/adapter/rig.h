/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rig - real UDP ports without a daemon, and without a transport behind them.
 *
 * In:  addresses of a network namespace of the test's own.
 * Out: sockets in place of verbatimd's (ctl_port), counts in place of the transport's packets
 *      (roce_receive), the last cause. The functions are replaced at link time (--wrap).
 */
#ifndef TESTS_UNIT_ADAPTER_RIG_H
#define TESTS_UNIT_ADAPTER_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "netdev/device.h"
#include "adapter/port_open.h"
#include "adapter/ports.h"
#include "base/cause.h"
#include "object/context.h"

extern int rig_port_error;	/* the result of ctl_port; 0: a socket */
extern unsigned rig_port_calls; /* of ctl_port */
extern unsigned rig_port_asks;	/* of ctl_port_ask, which also returns rig_port_error */
extern int rig_epoll_error;	/* the result of EPOLL_CTL_ADD */
extern enum cause rig_cause;	/* the last report; the test resets it */
extern _Atomic uint32_t rig_arrivals;
/* Called for each packet, if it is set; `inside` roce_receive. */
extern void (*rig_on_arrival)(const struct wire_arrival *arrival);

/* Exits with 77 where there are no network namespaces. */
void rig_init(void);

/* Initializes the ports as at the start of a process; closes them. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Adds 10.78.x.y to the loopback interface, or removes it. */
void rig_address(unsigned which, uint8_t gid[WIRE_GID_BYTES]);
void rig_add_address(unsigned which);
void rig_remove_address(unsigned which);

/* A context of a device that has these addresses, and does not look like a loopback device. */
struct context *rig_context(unsigned first, unsigned count);

/* From one open port to an address: `count` packets, at most WIRE_BURST. Returns how many left. */
unsigned rig_send(struct wire_port *from, const uint8_t to[WIRE_GID_BYTES], unsigned count);

/* The port of 10.78.x.y, opened if need be; with an errno instead, 0: it is open. */
struct wire_port *rig_open_address(unsigned which);
int rig_try_address(unsigned which);
/* As rig_send, to 10.78.x.y. */
unsigned rig_send_to(struct wire_port *from, unsigned which, unsigned count);
/* Packets that would wake the progress thread are there, or come within a second. */
bool rig_is_readable(void);
bool rig_is_readable_within(int ms);
/* Takes packets until none are left. */
void rig_take_all(void);

uint64_t rig_now_ns(void);
void rig_sleep_us(unsigned us);

#endif
