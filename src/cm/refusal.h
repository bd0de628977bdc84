/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refusal - why calls of librdmacm fail, as causes.
 *
 * In:  the cause, from the code that finds the fault; the result of the call.
 * Out: one cause for each call that fails, with the name of the call.
 *
 * A thread-local variable keeps the cause until the call returns. Any thread; does not block.
 */
#ifndef CM_REFUSAL_H
#define CM_REFUSAL_H

#include <stddef.h>

#include "base/cause.h"
#include "ctl/protocol.h"

#define REFUSAL_ADDRESS_BYTES 80

/* Keeps the cause for refusal_answer. Returns rc. */
int refusal(int rc, enum cause cause, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* "10.0.0.1 port 7471" or "fe80::1 (eth0) port 7471"; without a port if that is 0. */
const char *refusal_print(const struct ctl_cm_address *a, char text[REFUSAL_ADDRESS_BYTES]);

/* The answer of the exported function `call` (cm/export.h): 0, or -1 with errno and a cause. */
int refusal_answer(const char *call, int rc);

/* Reports a failure that the program gets as an event: REJECTED or UNREACHABLE, by `remote`. */
void refusal_report_event(const struct ctl_cm_event *event, const struct ctl_cm_address *remote);

#endif
