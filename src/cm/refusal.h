/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refusal - why calls of librdmacm fail, as causes.
 *
 * In:  what the code that finds a fault has to say of it; the answer of the call.
 * Out: one cause for each call that fails, with the name of the call.
 *
 * A thread has one refusal in hand, from where the fault is found to the answer of the call. Any
 * thread; does not block.
 */
#ifndef CM_REFUSAL_H
#define CM_REFUSAL_H

#include <stddef.h>

#include "base/cause.h"
#include "ctl/protocol.h"

struct id;

#define REFUSAL_ADDRESS_BYTES 80

/* Keeps it for the answer. Returns rc. */
int refusal(int rc, enum cause cause, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* -EINVAL, because of what the identifier has done so far. */
int refusal_state(const struct id *id);

/* "10.0.0.1 port 7471" or "fe80::1 (eth0) port 7471"; without a port if that is 0. */
const char *refusal_print(const struct ctl_cm_address *a, char text[REFUSAL_ADDRESS_BYTES]);

/* What an event tells the program: REJECTED, UNREACHABLE and others that are failures. */
void refusal_report_event(const struct id *id, const struct ctl_cm_event *event);

#endif
