/*
 * CM channel - an event channel of a program: its events, and the descriptor that tells of them.
 *
 * In:  events, from connections and requests.
 * Out: the same one by one (GET_EVENT); a byte in the program's descriptor as long as there are
 * any.
 *
 * The descriptor is one end of a socket pair, of which the daemon has both: it puts the byte in at
 * one and takes it out at the other. Where the program took it out itself, it has to poll no more.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_CM_CHANNEL_H
#define DAEMON_CM_CHANNEL_H

#include <stdbool.h>

#include "ctl/protocol.h"
#include "daemon/list.h"
#include "daemon/numbers.h"

struct cm_client;
struct cm_id;

struct cm_channel {
	struct numbered numbered;
	struct list in_client;
	struct cm_client *owner;
	int bell_fd;	/* the byte goes in here */
	int program_fd; /* a copy of the program's own: it comes out here */
	struct list events;
	unsigned event_count;
	struct list ids; /* whose events come here */
};

/* Belongs to both: whichever dies first takes it along. */
struct cm_event {
	struct list in_channel;
	struct list in_id; /* of the identifier that it is about */
	struct cm_id *id;
	struct cm_channel *channel;
	struct ctl_cm_event body;
};

/* Takes over the descriptors on success. NULL: out of memory. */
struct cm_channel *cm_channel_create(struct cm_client *owner, int bell_fd, int program_fd);

/*
 * Its identifiers end with it, as they do when a program closes the file that Linux has in its
 * place: the program may still destroy its halves of them, and do nothing else with them.
 */
void cm_channel_destroy(struct cm_channel *ch);

/* 0, -ENOSPC, -ENOMEM. The header, id and channel of the body are set here and when it is fetched.
 */
int cm_channel_post(struct cm_id *id, const struct ctl_cm_event *body);

/* NULL: there is none. It stays in the queue. */
struct cm_event *cm_channel_first(struct cm_channel *ch);
void cm_channel_drop(struct cm_event *e);

/* An identifier moves, with all its events in their order. */
void cm_channel_move(struct cm_id *id, struct cm_channel *to);

#endif
