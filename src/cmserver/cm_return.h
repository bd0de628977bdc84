/*
 * CM return - the moment after a daemon's start in which the processes of an earlier one come back.
 *
 * In:  the tokens of sessions that an earlier daemon gave; the sessions that return.
 * Out: what they had (cmserver/cm_restore.h), before anybody asks for anything new; then their connections go
 *      on.
 *
 * Each session has a token, a socket with a name that holds the session's number, and the process has the
 * token: so the daemon knows at its start how many are to return, and when one of them has ended. Until all
 * are back, but no longer than CM_RETURN_MS, BEGIN is not answered, to nobody: so no port is given that
 * somebody had, and no request is refused because its listener is late. Usually that is a matter of
 * milliseconds, and when nobody is expected there is no such moment.
 *
 * A connection with another host needs the port of its address, which an earlier daemon opened, and which the
 * processes that use it bring back, sooner or later than the connection. What is said without it is lost, and so
 * said again once it is open.
 *
 * A process may be stopped, and return much later. Whoever is connected with it on this host stays so, until
 * its token is gone: then it has ended (cm_connection_end_orphan). What is for a connection that is not there
 * is not answered meanwhile.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_RETURN_H
#define CMSERVER_CM_RETURN_H

#include <stdbool.h>
#include <stdint.h>

#include "cmserver/cm_moved.h"
#include "event/loop.h"

#define CM_RETURN_MS	  400
#define CM_RETURN_LOOK_MS 100

struct client;
struct cm;
struct cm_client;
struct fdmsg;

/* So many addresses whose port is not to be had are tried at a time, each once. */
#define CM_RETURN_LACKED 8

struct cm_return {
	struct cm *cm;
	uint32_t *away; /* sessions */
	unsigned away_count;
	int64_t over_ns; /* at the latest */
	bool is_over;	 /* BEGIN is answered */
	bool lacks_port; /* a connection with another host has not got the port of its address yet */
	struct cm_place lacked[CM_RETURN_LACKED]; /* in the last try */
	unsigned lacked_count;
	struct loop_timer look;
};

/* Looks who is expected. */
void cm_return_init(struct cm *cm);
void cm_return_fini(struct cm_return *r);

/* Somebody may come back whom messages are for. */
bool cm_return_expects(const struct cm *cm);

/*
 * Whether a client may have the session: 0; -ESTALE: its process is not away; -EPERM: it is
 * another's. The daemon of one user takes it from any process of that user, also when tokens' names
 * are elsewhere by now.
 */
int cm_return_admit(struct client *c, uint32_t session, int token_fd);

/* A new session, with a number and a token, which is the caller's to send and close. 0 or -errno. */
int cm_return_make_token(struct cm_client *cc, int *token_fd);

/* It does not return: no name is left of it. 0: of none. */
void cm_return_forget(struct cm *cm, uint32_t session);

void cm_return_on_begin(struct client *c, struct fdmsg *m);

#endif
