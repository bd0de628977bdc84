/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/ud.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/cause.h"
#include "base/gid.h"

#define GRH_BYTES  40
#define SLOT	   (DATAGRAM_MAX + 64) /* a receive: GRH, header, payload */
#define RECEIVE	   (UINT64_C(1) << 63)
#define BATCH	   16
#define RESOLVE_MS 1000

/* Creating and freeing */

static void destroy(struct ud_end *end)
{
	bool region_ended;

	if (end->qp)
		rdma_destroy_qp(end->id);
	region_ended = !end->mr || !ibv_dereg_mr(end->mr);
	if (end->cq)
		ibv_destroy_cq(end->cq);
	if (end->comp)
		ibv_destroy_comp_channel(end->comp);
	if (end->id)
		rdma_destroy_id(end->id);
	if (end->channel)
		rdma_destroy_event_channel(end->channel);
	/* Else a peer that was stopped while it writes would do so to whatever comes there next. */
	if (end->memory && region_ended)
		munmap(end->memory, end->memory_bytes);
	free(end->received);
	free(end);
}

void ud_free_all(struct datagram *d)
{
	while (!list_empty(&d->ends)) {
		struct ud_end *end = list_entry(d->ends.next, struct ud_end, link);

		list_del(&end->link);
		destroy(end);
	}
}

static void make_header(struct ud_end *end)
{
	struct ud_header *header = &end->header;

	if (end->local.sa.sa_family == AF_INET) {
		header->version = 4;
		header->length = UD_HEADER_IPV4;
		header->port = end->local.v4.sin_port;
		header->addr.ipv4 = end->local.v4.sin_addr.s_addr;
	} else {
		header->version = 6;
		header->length = UD_HEADER_IPV6;
		header->port = end->local.v6.sin6_port;
		header->addr.ipv6.flowinfo = end->local.v6.sin6_flowinfo;
		memcpy(header->addr.ipv6.addr, &end->local.v6.sin6_addr, 16);
	}
}

/* Binding to a loopback address chooses no device, as in Linux; resolving it does. */
static int resolve_own(struct ud_end *end, union socket_name *local)
{
	struct rdma_cm_event *event;

	if (rdma_resolve_addr(end->id, NULL, &local->sa, RESOLVE_MS) ||
	    rdma_get_cm_event(end->channel, &event))
		return -errno;
	rdma_ack_cm_event(event);
	return 0;
}

/* The id serves to find the device. Its port number is unused: peers learn the QP over UDP. */
static int make_id(struct ud_end *end)
{
	union socket_name any_port = end->local;
	int rc = 0;

	end->channel = rdma_create_event_channel();
	if (!end->channel)
		return -errno;
	if (rdma_create_id(end->channel, &end->id, end, RDMA_PS_UDP))
		return -errno;
	if (any_port.sa.sa_family == AF_INET)
		any_port.v4.sin_port = 0;
	else
		any_port.v6.sin6_port = 0;
	if (rdma_bind_addr(end->id, &any_port.sa))
		return -errno;
	if (!end->id->verbs)
		rc = resolve_own(end, &end->local);
	if (!rc && fcntl(end->channel->fd, F_SETFL, O_NONBLOCK))
		rc = -errno;
	return rc ? rc : end->id->verbs ? 0 : -ENODEV;
}

static int make_qp(const struct datagram *d, struct ud_end *end)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = end,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = d->sq_size,
			.max_recv_wr = d->rq_size,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = d->inline_bytes,
		},
	};

	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): make_id has set it */
	end->comp = ibv_create_comp_channel(end->id->verbs);
	if (!end->comp || fcntl(end->comp->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	end->cq = ibv_create_cq(end->id->verbs, (int)(d->sq_size + d->rq_size), end, end->comp, 0);
	if (!end->cq)
		return -errno;
	attr.send_cq = attr.recv_cq = end->cq;
	if (rdma_create_qp(end->id, NULL, &attr))
		return -errno;
	end->qp = end->id->qp;
	return 0;
}

static int make_buffers(const struct datagram *d, struct ud_end *end)
{
	end->received = calloc(d->rq_size, sizeof(*end->received));
	end->memory_bytes = (size_t)(d->sq_size + d->rq_size) * SLOT;
	end->memory = mmap(NULL, end->memory_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (end->memory == MAP_FAILED)
		end->memory = NULL;
	if (!end->received || !end->memory)
		return -ENOMEM;
	end->send_slots = end->memory;
	end->receive_slots = end->send_slots + (size_t)d->sq_size * SLOT;
	end->mr = ibv_reg_mr(end->qp->pd, end->memory, end->memory_bytes, IBV_ACCESS_LOCAL_WRITE);
	return end->mr ? 0 : -errno;
}

static int post_receive(struct ud_end *end, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(end->receive_slots + (size_t)slot * SLOT),
		.length = GRH_BYTES + DATAGRAM_MAX,
		.lkey = end->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = RECEIVE | slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return -ibv_post_recv(end->qp, &wr, &bad);
}

static union ibv_gid gid_of(const union socket_name *address)
{
	union ibv_gid gid;

	gid_from_sockaddr(&address->sa, gid.raw);
	return gid;
}

static void look_at_port(struct ud_end *end)
{
	union ibv_gid wanted = gid_of(&end->local), gid;
	struct ibv_port_attr attr;

	end->gid_index = -1;
	if (ibv_query_port(end->id->verbs, end->id->port_num, &attr))
		return;
	end->mtu = 128u << attr.active_mtu;
	for (int i = 0; i < attr.gid_tbl_len && end->gid_index < 0; i++)
		if (!ibv_query_gid(end->id->verbs, end->id->port_num, i, &gid) &&
		    !memcmp(&gid, &wanted, sizeof(gid)))
			end->gid_index = i;
	/*
	 * The address belongs to another device of this host. Then the peers are on this host, too,
	 * and any GID reaches them.
	 */
	if (end->gid_index < 0)
		end->gid_index = 0;
}

static int open_end(struct datagram *d, struct ud_end *end) REQUIRES(d->lock)
{
	struct epoll_event event = { .events = EPOLLIN };
	int rc = make_id(end);

	make_header(end);
	if (!rc)
		rc = make_qp(d, end);
	if (!rc)
		rc = make_buffers(d, end);
	for (uint32_t i = 0; !rc && i < d->rq_size; i++) {
		end->received[i].end = end;
		rc = post_receive(end, i);
	}
	if (rc)
		return rc;
	look_at_port(end);
	if (d->armed)
		ibv_req_notify_cq(end->cq, 0);
	return epoll_ctl(d->epoll, EPOLL_CTL_ADD, end->comp->fd, &event) ? -errno : 0;
}

int ud_get(struct datagram *d, const union socket_name *local, struct ud_end **end)
{
	struct list *pos;
	int rc;

	list_for_each(pos, &d->ends) {
		*end = list_entry(pos, struct ud_end, link);
		if (name_equal(&(*end)->local, local))
			return 0;
	}
	*end = calloc(1, sizeof(**end));
	if (!*end)
		return -ENOMEM;
	(*end)->local = *local;
	rc = open_end(d, *end);
	if (rc)
		destroy(*end);
	else
		list_add_tail(&d->ends, &(*end)->link);
	return rc;
}

/* Sending */

uint32_t ud_max(const struct ud_end *end)
{
	return (end->mtu < DATAGRAM_MAX ? end->mtu : DATAGRAM_MAX) - end->header.length;
}

bool ud_can_send(const struct datagram *d, const struct ud_end *end)
{
	return end->posted - end->completed < d->sq_size;
}

int ud_send(struct datagram *d, struct ud_end *end, struct ibv_ah *ah, uint32_t qpn,
	    struct pieces *pieces, uint32_t length)
{
	uint8_t *slot = end->send_slots + (size_t)(end->posted % d->sq_size) * SLOT;
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot,
		.length = end->header.length + length,
		.lkey = end->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = end->posted,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = sge.length <= d->inline_bytes ? IBV_SEND_INLINE : 0,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = RDMA_UDP_QKEY },
	}, *bad;
	int rc;

	memcpy(slot, &end->header, end->header.length);
	pieces_gather(pieces, slot + end->header.length, length);
	rc = ibv_post_send(end->qp, &wr, &bad);
	if (!rc)
		end->posted++;
	return -rc;
}

struct ibv_ah *ud_address(struct ud_end *end, const union socket_name *address)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = end->id->port_num,
		.grh = { .dgid = gid_of(address),
			 .sgid_index = (uint8_t)end->gid_index,
			 .hop_limit = 64 },
	};

	return end->gid_index < 0 ? NULL : ibv_create_ah(end->qp->pd, &attr);
}

/* Receiving */

static bool is_datagram(const struct ud_header *header, uint32_t length)
{
	if (length < UD_HEADER_IPV4)
		return false;
	return (header->version == 4 && header->length == UD_HEADER_IPV4) ||
	       (header->version == 6 && header->length == UD_HEADER_IPV6 &&
		length >= UD_HEADER_IPV6);
}

static void on_received(struct datagram *d, struct ud_end *end, const struct ibv_wc *wc)
	REQUIRES(d->lock)
{
	uint32_t slot = (uint32_t)wc->wr_id;
	struct ud_received *received = &end->received[slot];
	const uint8_t *at = end->receive_slots + (size_t)slot * SLOT + GRH_BYTES;
	uint32_t length = wc->byte_len >= GRH_BYTES ? wc->byte_len - GRH_BYTES : 0;

	received->header = (const struct ud_header *)at;
	if (wc->status == IBV_WC_SUCCESS && is_datagram(received->header, length)) {
		received->length = length - received->header->length;
		list_add_tail(&d->arrived, &received->link);
		return;
	}
	if (wc->status == IBV_WC_SUCCESS)
		cause_report(CAUSE_RSOCKET_DATAGRAM, end->qp->qp_num, "%u bytes from QP %06x",
			     length, wc->src_qp);
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		post_receive(end, slot);
}

/*
 * Takes all completions that were there: a CQ that was armed raises no event for them. No more
 * than the CQ holds, so that others who go on sending do not keep the lock busy.
 */
static bool poll_end(struct datagram *d, struct ud_end *end) REQUIRES(d->lock)
{
	struct ibv_wc wc[BATCH];
	int n, taken = 0;

	do {
		n = ibv_poll_cq(end->cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id & RECEIVE)
				on_received(d, end, &wc[i]);
			else
				end->completed++;
		}
		taken += n;
	} while (n == BATCH && taken < end->cq->cqe);
	return taken > 0;
}

bool ud_poll(struct datagram *d)
{
	struct list *pos;
	bool found = false;

	list_for_each(pos, &d->ends)
		found |= poll_end(d, list_entry(pos, struct ud_end, link));
	return found;
}

void ud_sender(const struct ud_received *received, union socket_name *address)
{
	const struct ud_header *header = received->header;

	memset(address, 0, sizeof(*address));
	if (header->version == 4) {
		address->v4.sin_family = AF_INET;
		address->v4.sin_port = header->port;
		address->v4.sin_addr.s_addr = header->addr.ipv4;
	} else {
		address->v6.sin6_family = AF_INET6;
		address->v6.sin6_port = header->port;
		address->v6.sin6_flowinfo = header->addr.ipv6.flowinfo;
		memcpy(&address->v6.sin6_addr, header->addr.ipv6.addr, 16);
		address->v6.sin6_scope_id = received->end->local.v6.sin6_scope_id;
	}
}

void ud_release(struct datagram *d, struct ud_received *received)
{
	list_del(&received->link);
	post_receive(received->end, (uint32_t)(received - received->end->received));
}

void ud_arm(struct datagram *d)
{
	struct list *pos;

	list_for_each(pos, &d->ends)
		ibv_req_notify_cq(list_entry(pos, struct ud_end, link)->cq, 0);
}

void ud_disarm(struct datagram *d)
{
	struct list *pos;
	struct ibv_cq *cq;
	void *context;

	list_for_each(pos, &d->ends)
		while (!ibv_get_cq_event(list_entry(pos, struct ud_end, link)->comp, &cq, &context))
			ibv_ack_cq_events(cq, 1);
}

bool ud_all_done(const struct datagram *d)
{
	struct list *pos;

	list_for_each(pos, &d->ends) {
		struct ud_end *end = list_entry(pos, struct ud_end, link);

		if (end->posted != end->completed)
			return false;
	}
	return true;
}
