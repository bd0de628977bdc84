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
	uint32_t send_bytes;	/* wmem_default */
	uint32_t sq_size;	/* sqsize_default */
	uint32_t rq_size;	/* rqsize_default */
	uint32_t inline_bytes;	/* inline_default */
	uint32_t mappings;	/* iomap_size */
	uint32_t poll_us;	/* polling_time: how long a call looks before it sleeps */
	uint32_t wake_ms;	/* wake_up_interval: how long it sleeps before it looks again */
};

enum { SIZE_MIN = 16, SIZE_MAX_QUEUE = 0xfffe, BUFFER_MIN = 4096, BUFFER_MAX = 1 << 30 };

/* The same for the life of the process. Any thread. */
const struct config *config_get(void);

/* `bytes` as a size of a buffer: even, neither below BUFFER_MIN nor above BUFFER_MAX. */
uint32_t config_buffer(uint64_t bytes);

#endif
