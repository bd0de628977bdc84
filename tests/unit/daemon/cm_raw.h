/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM raw - a connection to the daemon like librdmacm's, message by message.
 *
 * In:  messages, valid or not.
 * Out: the daemon's answers.
 */
#ifndef CM_RAW_H
#define CM_RAW_H

#include <stdint.h>

#include "ctl/fdmsg.h"

/* Sends, and waits for the next message. */
struct fdmsg cm_ask_with(int sock, const void *request, size_t len, const int *fds,
			 unsigned fd_count);
struct ctl_cm_reply cm_ask(int sock, const void *request, size_t len);

/* A request of struct ctl_cm_ask: the status, 0 or an errno. */
int cm_say(int sock, enum ctl_type type, uint32_t id, uint32_t channel);

/* A session's store; and its CM_HELLO. */
int cm_make_store(void);
struct ctl_cm_hello cm_hello(uint32_t session);

/* After CM_HELLO and BEGIN; by a connection that has said nothing yet. */
int cm_join(void);
int cm_join_by(int sock);

/* A channel's descriptor. */
int cm_make_event_fd(void);

/* 0 or an errno. */
int cm_create_channel(int sock, int event_fd, uint32_t *number);

/* A channel whose descriptor is closed here. */
uint32_t cm_make_channel(int sock);
uint32_t cm_make_id(int sock, uint32_t channel);

/* A listener on a port of 127.0.0.1. */
uint32_t cm_listen(int sock, uint32_t channel, struct ctl_cm_address *at);
uint32_t cm_listen_at(int sock, uint32_t channel, const struct ctl_cm_address *local,
		      struct ctl_cm_address *at);

/* Connects; 0 or an errno. */
int cm_connect(int sock, uint32_t id, const struct ctl_cm_address *to);
int cm_connect_from(int sock, uint32_t id, const struct ctl_cm_address *from,
		    const struct ctl_cm_address *to);

/* Raises an event of the program's own; 0 or an errno. */
int cm_raise(int sock, uint32_t id);

/* The next event; answer is EAGAIN if there is none. */
struct ctl_cm_event cm_event(int sock, uint32_t channel);

/* The next event within PATIENCE_MS: any, or of this kind. */
struct ctl_cm_event cm_next(int sock, uint32_t channel);
struct ctl_cm_event cm_await(int sock, uint32_t channel, enum ctl_cm_event_kind kind);

/* Makes, connects, disconnects and destroys both ends; returns the time in ms. */
int64_t cm_round(int passive, int active);

#endif
