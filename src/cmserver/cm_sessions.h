/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM sessions - the sessions of processes, their tokens, and the sessions of an earlier daemon that
 * may return.
 *
 * In:  the tokens of sessions that an earlier daemon gave; the sessions that return.
 * Out: tokens of new sessions; which sessions are away, and how long others wait for those of an
 *      earlier daemon.
 *
 * Each session has a token that its process holds: a socket whose name has the session's number. So
 * the daemon knows at its start how many sessions are to return, and when one of them has ended.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_SESSIONS_H
#define CMSERVER_CM_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CM_SESSIONS_WAIT_MS 400
#define CM_SESSIONS_LATE_MS 30000

#define CM_SESSIONS_HUNG_UP_MAX 64 /* of a user, with a daemon for all users */

struct daemon;

struct cm_away {
	uint32_t session;
	bool has_hung_up; /* from this daemon; else it is an earlier daemon's */
	uid_t uid;	  /* if it has hung up */
};

struct cm_sessions {
	struct daemon *daemon;
	struct cm_away *away; /* by their numbers */
	unsigned away_count;
	bool is_incomplete;	 /* there were more than could be noted */
	unsigned expected_count; /* those of them that are an earlier daemon's */
	int64_t expects_ns;	 /* until when messages for these may be repeated */
	int64_t over_ns;	 /* when the wait for these ends at the latest */
	bool is_over;		 /* the wait has ended; BEGIN is answered */
};

/* Finds the sessions that may return. If there are any the wait begins, else it is over. */
void cm_sessions_init(struct cm_sessions *s, struct daemon *d);
void cm_sessions_fini(struct cm_sessions *s);

/*
 * A number for a new session, and its token, which is the caller's to send and close. 0 or -errno.
 */
int cm_sessions_make_token(const struct cm_sessions *s, uint32_t *session, int *token_fd);

/* The session has ended: removes its name. session 0: does nothing. */
void cm_sessions_forget(const struct cm_sessions *s, uint32_t session);

/* Whether a process holds the session's token. */
bool cm_sessions_is_held(const struct cm_sessions *s, uint32_t session);

/*
 * The session's process, which lives, has lost its connection, and may return. Nobody waits for it,
 * as any process can hang up whenever it wants.
 */
void cm_sessions_remember(struct cm_sessions *s, uint32_t session, uid_t uid);

/* Whether one more session of the user can be remembered. */
bool cm_sessions_has_room(const struct cm_sessions *s, uid_t uid);

bool cm_sessions_is_away(const struct cm_sessions *s, uint32_t session);

/* Whether it is away, as far as is known. */
bool cm_sessions_may_return(const struct cm_sessions *s, uint32_t session);

/*
 * Messages may be for a process that has not returned yet since the daemon's start. Not for ever:
 * one that is stopped, or calls nothing any more, may never return, and others wait for answers
 * meanwhile. It may return even later.
 */
bool cm_sessions_expects(const struct cm_sessions *s);

/* The session has returned. */
void cm_sessions_on_return(struct cm_sessions *s, uint32_t session);

/* Forgets sessions whose processes have ended. Whether there were any. */
bool cm_sessions_drop_ended(struct cm_sessions *s);

void cm_sessions_end_wait(struct cm_sessions *s);

#endif
