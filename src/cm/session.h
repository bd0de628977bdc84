/*
 * Session - this process's connection to verbatimd for connection management.
 *
 * In:  requests of ctl/cm_protocol.h.
 * Out: their answers.
 *
 * Made by the first request; one a process. Any thread may ask; each request blocks for one
 * exchange. The child of a fork gets one of its own, where nothing of its parent's is known. When
 * verbatimd died the next request finds or starts another one, and is answered -ENOENT for what the
 * old one knew.
 */
#ifndef CM_SESSION_H
#define CM_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/protocol.h"

/*
 * `request` is complete but for header.seq. fds are sent along and stay the caller's. 0; what the
 * daemon answered (-errno); -ECONNREFUSED and others: there is no daemon.
 */
int session_ask(struct ctl_header *request, size_t len, const int *fds, unsigned fd_count,
		struct ctl_cm_reply *reply);

/*
 * Changes when a session ends: what verbatimd gave in an earlier one is unknown in the next,
 * whether there is one or not.
 */
unsigned session_number(void);

/* CTL_CM_* with these fields; number may be NULL: the new one's. */
int session_ask_plain(const struct ctl_cm_ask *ask, uint32_t *number);

/* The next event of a channel. 0; -EAGAIN: there is none; other -errno. */
int session_next_event(uint32_t channel, struct ctl_cm_event *out);

#endif
