/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control peer - a client of the daemon under fuzz_ctl: its connection, and the replies that it
 * got.
 *
 * In:  messages to send.
 * Out: the numbers that the daemon gave it, for later messages.
 *
 * Never blocks: a message that does not fit into the socket is dropped.
 */
#ifndef CTL_PEER_H
#define CTL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/protocol.h"

#define PEER_NUMBERS 8

struct daemon;

struct peer {
	struct daemon *daemon;
	int sock; /* -1: not connected */
	bool is_cm;
	bool deaf;    /* it reads nothing */
	bool meddles; /* it wrote to a channel's descriptor, or took from it */
	unsigned slot;
	int token, fd_store; /* -1: none */
	int store;	     /* of one that manages connections; -1: none */
	uint32_t ids[PEER_NUMBERS], channels[PEER_NUMBERS];
	int ends[PEER_NUMBERS]; /* the channels' descriptors, the program's */
	int next_end;		/* of the last requested channel; -1: none */
	unsigned asked;		/* number of requested channels */
	unsigned id_count, channel_count;
	bool has_event;
	struct ctl_cm_event event; /* the last one that it fetched */
	union ctl_message reply;   /* the last one that it read */
};

void peer_init(struct peer *p);
bool peer_is_there(const struct peer *p);

/* Connects, as a process of this user. */
void peer_call(struct peer *p, struct daemon *d, uid_t uid, unsigned process);
void peer_join_cm(struct peer *p);
void peer_hang_up(struct peer *p);

/*
 * The next connection of a process whose daemon ended, as the process sees it: with this store and
 * with its channels. Takes the store over.
 */
void peer_come_back(struct peer *p, uid_t uid, unsigned process, uint32_t session, int store_fd);

/* Closes fds. */
void peer_send(struct peer *p, const void *message, size_t length, int *fds, unsigned count);

/* Reads all messages, unless the peer is deaf. */
void peer_read(struct peer *p);

void peer_create_channel(struct peer *p);
void peer_listen(struct peer *p, const struct ctl_cm_address *local, uint16_t space);
void peer_connect(struct peer *p, const struct ctl_cm_address *local,
		  const struct ctl_cm_address *remote, uint16_t space);

/* Fetches an event, or reacts to the last one as a program does. */
void peer_go_on(struct peer *p, uint8_t how);

/* Writes to a channel's descriptor, or reads from it. */
void peer_meddle(struct peer *p, uint8_t how);

#endif
