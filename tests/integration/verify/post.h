/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Post - work requests, by ibv_post_send() or by ibv_wr_*(), as the options say.
 *
 * In:  what one request is. Out: it is posted, or the process ends.
 */
#ifndef VERIFY_POST_H
#define VERIFY_POST_H

#include "endpoint.h"

struct request {
	uint64_t wr_id;
	enum operation operation;
	const struct ibv_sge *pieces;
	int piece_count;
	uint32_t imm; /* host order */
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_add;
	uint64_t swap;
};

/* The opcode of the send completion, and of the receive completion if there is one. */
enum ibv_wc_opcode post_wc_opcode(enum operation operation);
enum ibv_wc_opcode post_receive_wc_opcode(enum operation operation);

/* All as one chain (or between one ibv_wr_start and ibv_wr_complete); at most 256. */
void post_send_chain(struct endpoint *e, const struct request *requests, unsigned count);

void post_receive(struct endpoint *e, uint64_t wr_id, struct ibv_sge *pieces, int count);

#endif
