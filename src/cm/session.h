/*
 * Session - this process's connection to verbatimd for connection management.
 *
 * In:  requests of ctl/cm_protocol.h.
 * Out: their answers.
 *
 * Made by the first request; one a process. Any thread may ask; each request blocks for one exchange. The
 * child of a fork gets one of its own, where nothing of its parent's is known.
 *
 * A session outlives verbatimd. What verbatimd has for this process is in a memfd of this process (the
 * store, cmserver/cm_store.h). When verbatimd is gone, a thread of this library sees it at the socket, or the
 * next request does: it finds or starts another one, gives it the store and the descriptors of the channels,
 * and makes the request again that was not answered. Nothing of it is seen by the program. Only if the next
 * one does not take the session does that end, and is answered -ENOENT for what the old one knew.
 */
#ifndef CM_SESSION_H
#define CM_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/protocol.h"

/* A channel's part in it. Guarded by the session's lock. */
struct session_channel {
	struct session_channel *prev, *next; /* NULL: in no session */
	uint32_t number;
	int fd;
};

/*
 * `request` is complete but for header.seq. 0; what the daemon answered (-errno); -ECONNREFUSED and others:
 * there is no daemon.
 */
int session_ask(struct ctl_header *request, size_t len, struct ctl_cm_reply *reply);

/*
 * A new channel with this descriptor, which stays the caller's, and stays open until session_forget_channel:
 * each daemon gets a copy.
 */
int session_open_channel(struct session_channel *ch, int fd);

/* No daemon gets it any more. Harmless if it is in no session. */
void session_forget_channel(struct session_channel *ch);

/* Changes when a session ends: what verbatimd gave in an earlier one is unknown in the next. */
unsigned session_number(void);

/* CTL_CM_* with these fields; number may be NULL: the new one's. */
int session_ask_plain(const struct ctl_cm_ask *ask, uint32_t *number);

/* The identifier ends: with this verbatimd, or if there is none with the next one. */
void session_destroy_id(uint32_t id);

/* The next event of a channel. 0; -EAGAIN: there is none; other -errno. */
int session_next_event(uint32_t channel, struct ctl_cm_event *out);

#endif
