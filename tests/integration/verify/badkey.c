/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Badkey - a WRITE with an rkey that does not exist. The initiator then waits for the end of its
 * standard input, so that tools can ask for the cause.
 */
#include <stdio.h>

#include "endpoint.h"
#include "meet.h"
#include "post.h"

static void write_with_bad_key(struct endpoint *e)
{
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory, .length = 64, .lkey = e->mr->lkey };
	struct request request = {
		.operation = OP_WRITE,
		.pieces = &piece,
		.piece_count = 1,
		.remote_addr = e->theirs.addr,
		.rkey = e->theirs.rkey ^ 0x5a0000,
	};
	struct ibv_wc wc;

	post_send_chain(e, &request, 1);
	endpoint_wait(e, e->send_cq, &wc);
	if (wc.status != IBV_WC_REM_ACCESS_ERR)
		fail("status %d (%s)", wc.status, ibv_wc_status_str(wc.status));
	printf("refused rkey=0x%x vendor_err=%u\n", request.rkey, wc.vendor_err);
}

int run_badkey(const struct options *options)
{
	struct endpoint e;

	endpoint_open(&e, options, 4096);
	endpoint_connect(&e);
	if (options->host) {
		write_with_bad_key(&e);
		while (getchar() != EOF)
			;
	}
	meet_barrier(e.fd);
	endpoint_close(&e);
	return 0;
}
