/* SPDX-License-Identifier: BSD-2-Clause */
/* RNR - the time that a requester waits after an RNR NAK. Pure. */
#ifndef EXECUTE_RNR_H
#define EXECUTE_RNR_H

#include <stdint.h>

/* The time of an RNR timer code (min_rnr_timer, 0..31; IBA table 45) in ns: 10 us to 655.36 ms. */
uint64_t rnr_timer_ns(uint8_t code);

#endif
