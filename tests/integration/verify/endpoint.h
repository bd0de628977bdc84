/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoint - one end: a device, a region of memory, two CQs and a QP connected with the other
 * end's.
 *
 * In:  options, the bytes of memory wanted. Out: completions, waited for with a time limit.
 * Order of calls: endpoint_open, endpoint_connect, then posts and waits, endpoint_close.
 */
#ifndef VERIFY_ENDPOINT_H
#define VERIFY_ENDPOINT_H

#include "verify.h"

/* Of rdma-core 45, which the headers may not have yet. */
#define ENDPOINT_ACCESS_FLUSH (1 << 8)
#define ENDPOINT_WITH_FLUSH   (1 << 11)
#define ENDPOINT_WC_FLUSH     8

#define ENDPOINT_QKEY	    0x11111111u
#define ENDPOINT_PIECES_MAX 8

/* For the other end; exchanged as bytes, as both ends are of one host. */
struct endpoint_info {
	uint32_t qpn;
	uint32_t psn;
	uint32_t rkey;
	uint64_t addr;
	uint16_t lid;
	union ibv_gid gid;
};

struct endpoint {
	const struct options *options;
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_device_attr device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* of both CQs */
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex; /* NULL unless --wr-api */
	struct ibv_ah *ah;	 /* UD only */
	struct ibv_mr *mr;
	uint8_t *memory; /* bytes of it, registered as mr */
	size_t bytes;
	unsigned inline_max;
	int fd; /* meet.h */
	struct endpoint_info ours;
	struct endpoint_info theirs;
};

/* The device named in VERIFY_DEVICE, or the first one. */
struct ibv_context *endpoint_open_device(void);

/* The QP is in INIT then: receives can be posted. */
void endpoint_open(struct endpoint *e, const struct options *options, size_t bytes);

/* Meets the other end and brings the QP to RTS; returns when both ends are there. */
void endpoint_connect(struct endpoint *e);

/* The next completion, whatever its status; none within 20 s ends the process. */
void endpoint_wait(struct endpoint *e, struct ibv_cq *cq, struct ibv_wc *wc);

/* The same; any status but success ends the process, too. */
void endpoint_wait_success(struct endpoint *e, struct ibv_cq *cq, struct ibv_wc *wc);

/* Destroys all; a destruction that fails ends the process. */
void endpoint_close(struct endpoint *e);

#endif
