/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM teardown - the end of identifiers, with all that depends on them.
 *
 * In:  an identifier, a channel or a client that ends.
 * Out: connections abandoned, requests of children refused, events dropped, then the memory freed.
 *
 * The caller calls cm_dispatch_deliver afterwards. Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_TEARDOWN_H
#define CMSERVER_CM_TEARDOWN_H

struct cm_channel;
struct cm_client;
struct cm_id;

/* Ends its connection, and refuses the requests of its children. */
void cm_teardown_id(struct cm_id *id);

/*
 * Destroys its identifiers, too, as Linux does when a program closes the channel's file. The
 * program can then only destroy its halves of them.
 */
void cm_teardown_channel(struct cm_channel *ch);

/* All that a client has. */
void cm_teardown_client(struct cm_client *cc);

#endif
