/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Config - the defaults of new rsockets: the files of /etc/rdma/rsocket, read once.
 *
 * Each file holds one number. A file that is unreadable or holds no such number is ignored.
 */
#ifndef RSOCKET_CONFIG_H
#define RSOCKET_CONFIG_H

#include <stdint.h>

struct config {
	uint32_t receive_bytes; /* mem_default: the receive buffer, both halves */
	uint32_t send_bytes;	/* wmem_default: the send buffer */
	uint32_t sq_size;	/* sqsize_default: WQEs of the SQ */
	uint32_t rq_size;	/* rqsize_default: WQEs of the RQ */
	uint32_t inline_bytes;	/* inline_default: longest inline send */
	uint32_t mappings;	/* iomap_size: mappings (riomap) that the peer may have */
	uint32_t poll_us;	/* polling_time: how long a call busy-polls before it sleeps */
	uint32_t wake_ms;	/* wake_up_interval: longest sleep before a call polls again */
};

/* Limits of queues, in WQEs, and of buffers, in bytes. */
enum { SIZE_MIN = 16, SIZE_MAX_QUEUE = 0xfffe, BUFFER_MIN = 4096, BUFFER_MAX = 1 << 30 };

/* The first call reads the files; later calls return the same object. Any thread. Keeps errno. */
const struct config *config_get(void);

/* Rounds `bytes` up to an even number within BUFFER_MIN..BUFFER_MAX. */
uint32_t config_buffer(uint64_t bytes);

#endif
