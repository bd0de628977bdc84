/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Session - this process's connection to verbatimd for connection management.
 *
 * In:  requests of ctl/cm_protocol.h.
 * Out: their answers.
 *
 * One a process, made by the first request. Any thread may make requests; each blocks for one
 * exchange. The child of a fork gets a session of its own, which knows nothing of its parent's
 * objects.
 *
 * A session outlives verbatimd. The state that verbatimd has for this process is in a memfd of this
 * process (the store, cmserver/cm_store.h). When verbatimd ends, the watching thread of this
 * library or the next request sees it at the socket. It finds or starts another verbatimd, passes
 * it the store and the descriptors of the channels, and repeats the unanswered request. The program
 * notices nothing. If the new verbatimd refuses the session, the session ends: requests for its
 * objects are answered -ENOENT.
 */
#ifndef CM_SESSION_H
#define CM_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "ctl/protocol.h"

/* A channel's part in it. Guarded by the session's lock. */
struct session_channel {
	struct list entry; /* zeroed or alone: in no session */
	uint32_t number;
	int fd;
};

/*
 * `request` is complete but for header.seq. 0; what the daemon answered (-errno); -ECONNREFUSED and
 * others: there is no daemon.
 */
int session_ask(struct ctl_header *request, size_t len, struct ctl_cm_reply *reply);

/*
 * Makes a channel with this descriptor. The caller owns it and keeps it open until
 * session_forget_channel: each verbatimd gets a copy.
 */
int session_open_channel(struct session_channel *ch, int fd);

/* No later verbatimd gets it. Harmless if it is in no session. */
void session_forget_channel(struct session_channel *ch);

/* Changes when a session ends: what verbatimd gave in an earlier one is unknown in the next. */
unsigned session_number(void);

/*
 * Whether the session goes on with the next verbatimd without a request. False while none is found:
 * then a request fails, and says why.
 */
bool session_is_watched(void);

/* Sends CTL_CM_* with these fields. *number: of the new object; may be NULL. */
int session_ask_plain(const struct ctl_cm_ask *ask, uint32_t *number);

/* Ends the identifier: at this verbatimd or, if none runs, at the next one. */
void session_destroy_id(uint32_t id);

/* The next event of a channel. 0; -EAGAIN: there is none; other -errno. */
int session_next_event(uint32_t channel, struct ctl_cm_event *out);

#endif
