/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notices - unsolicited messages of verbatimd, and its answers to ctl_*_ask.
 *
 * In:  messages from the daemon.
 * Out: notices, in order; those that came while a request waited for its reply are kept.
 *
 * All functions: caller holds the client's lock. None blocks.
 */
#ifndef CTL_NOTICES_H
#define CTL_NOTICES_H

#include <stdbool.h>

struct ctl_client;
struct ctl_notice;
struct ctl_peer_info;
struct fdmsg;

/*
 * Keeps a message that came before the reply to a request. False: it is no notice, or out of
 * memory.
 */
bool notices_queue(struct ctl_client *c, struct fdmsg *m);

/* As ctl_next_notice. */
int notices_next(struct ctl_client *c, struct ctl_notice *out);

/* A reply that came after its request had timed out, or that no caller waits for. */
bool notices_is_late_reply(const struct fdmsg *m);

/* The message is a ctl_link, and its numbers are in range. */
bool notices_is_link(const struct fdmsg *m);

/* Takes the descriptors of a link, if all of them came, out of the message. */
void notices_take_link(struct fdmsg *m, struct ctl_peer_info *out);

/* Closes the descriptors in notices that were not fetched. */
void notices_drop(struct ctl_client *c);

#endif
