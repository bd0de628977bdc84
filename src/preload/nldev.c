/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/nldev.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "preload/resources.h"
#include "preload/tree.h"

#define PORTS	      1		      /* of each device */
#define CM_ID_LISTENS 8		      /* RDMA_CM_LISTEN of the kernel's enum rdma_cm_state */
#define SUBNET	      0xfe80ull << 48 /* the GIDs' prefix with IB's link layer */

enum field { FIELD_DEVICE, FIELD_PORT, FIELD_QPN, FIELDS };

/* A request, and where its answer goes. */
struct request {
	const struct nlmsghdr *header;
	bool is_dump;
	bool has[FIELDS];
	uint32_t value[FIELDS];
	struct view view;
	int device; /* in the view */
	char name[VIEW_NAME_MAX];
	struct answer *answer;
	bool found; /* the resource that is looked for */
};

static uint16_t field_attribute(enum field field)
{
	static const uint16_t attributes[] = {
		[FIELD_DEVICE] = RDMA_NLDEV_ATTR_DEV_INDEX,
		[FIELD_PORT] = RDMA_NLDEV_ATTR_PORT_INDEX,
		[FIELD_QPN] = RDMA_NLDEV_ATTR_RES_LQPN,
	};

	return attributes[field];
}

static void keep_field(struct request *request, const struct nlattr *attribute)
{
	if (attribute->nla_len != NLA_HDRLEN + sizeof(uint32_t))
		return;
	for (enum field i = 0; i < FIELDS; i++) {
		if ((attribute->nla_type & NLA_TYPE_MASK) != field_attribute(i))
			continue;
		memcpy(&request->value[i], attribute + 1, sizeof(request->value[i]));
		request->has[i] = true;
	}
}

/* The message's length was found to be within what has come. */
static void parse(struct request *request)
{
	const char *at = (const char *)request->header + NLMSG_HDRLEN;
	const char *end = (const char *)request->header + request->header->nlmsg_len;

	while (end - at >= (ptrdiff_t)sizeof(struct nlattr)) {
		const struct nlattr *attribute = (const void *)at;

		if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > end - at)
			return;
		keep_field(request, attribute);
		if (NLA_ALIGN(attribute->nla_len) > end - at)
			return;
		at += NLA_ALIGN(attribute->nla_len);
	}
}

/* Its network interface has this number. */
static int find_device(const struct view *view, uint32_t number)
{
	for (int i = 0; i < view->count; i++)
		if (view->devices[i].index == number)
			return i;
	return -1;
}

static void take_device(struct request *request, int device)
{
	request->device = device;
	view_name(&request->view, device, request->name);
}

/* 0, or -EINVAL: the request names no device, or none that there is. */
static int choose_device(struct request *request)
{
	int device = -1;

	if (request->has[FIELD_DEVICE])
		device = find_device(&request->view, request->value[FIELD_DEVICE]);
	if (device < 0)
		return -EINVAL;
	take_device(request, device);
	return 0;
}

/* 0 in the request, or no port, means all. */
static bool wants_port(const struct request *request, uint32_t port)
{
	return !request->value[FIELD_PORT] || request->value[FIELD_PORT] == port;
}

static bool has_wrong_port(const struct request *request)
{
	return request->value[FIELD_PORT] > PORTS;
}

static void begin(struct request *request)
{
	answer_begin(request->answer, request->header->nlmsg_type,
		     request->is_dump ? NLM_F_MULTI : 0);
	answer_u32(request->answer, RDMA_NLDEV_ATTR_DEV_INDEX,
		   request->view.devices[request->device].index);
	answer_text(request->answer, RDMA_NLDEV_ATTR_DEV_NAME, request->name);
}

/* What a file of the device begins with, such as 4 of "4: ACTIVE". */
static uint64_t number_of(const struct request *request, const char *file)
{
	char path[TREE_PATH_MAX], text[TREE_TEXT_MAX];
	struct node node;

	snprintf(path, sizeof(path), "/sys/devices/verbatim/%s/infiniband/%s/%s", request->name,
		 request->name, file);
	if (!tree_find(&request->view, path, &node) ||
	    tree_text(&request->view, &node, text, sizeof(text)) <= 0)
		return 0;
	return strtoull(text, NULL, 0);
}

static void say_device(struct request *request)
{
	const struct view *view = &request->view;
	uint64_t guid = interface_guid(&view->devices[request->device]);
	struct answer *answer = request->answer;

	begin(request);
	answer_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, PORTS);
	answer_text(answer, RDMA_NLDEV_ATTR_FW_VERSION, VERBATIM_VERSION);
	answer_u64(answer, RDMA_NLDEV_ATTR_NODE_GUID, guid);
	answer_u64(answer, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, guid);
	answer_u8(answer, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, (uint8_t)number_of(request, "node_type"));
	answer_text(answer, RDMA_NLDEV_ATTR_DEV_PROTOCOL,
		    view->iwarp	       ? "iw"
		    : view->infiniband ? "ib"
				       : "roce");
	answer_end(answer);
}

static int get_device(struct request *request)
{
	if (!request->is_dump) {
		int rc = choose_device(request);

		if (rc == 0)
			say_device(request);
		return rc;
	}
	for (int i = 0; i < request->view.count; i++) {
		take_device(request, i);
		say_device(request);
	}
	return 0;
}

/* What ports have with IB's link layer alone. */
static void say_subnet(struct request *request)
{
	struct answer *answer = request->answer;

	answer_u64(answer, RDMA_NLDEV_ATTR_CAP_FLAGS, number_of(request, "ports/1/cap_mask"));
	answer_u64(answer, RDMA_NLDEV_ATTR_SUBNET_PREFIX, SUBNET);
	answer_u32(answer, RDMA_NLDEV_ATTR_LID, (uint32_t)number_of(request, "ports/1/lid"));
	answer_u32(answer, RDMA_NLDEV_ATTR_SM_LID, (uint32_t)number_of(request, "ports/1/sm_lid"));
	answer_u8(answer, RDMA_NLDEV_ATTR_LMC, 0);
}

/* The only port. */
static void say_port(struct request *request)
{
	const struct interface *interface = &request->view.devices[request->device];
	struct answer *answer = request->answer;

	begin(request);
	answer_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	if (request->view.infiniband)
		say_subnet(request);
	answer_u8(answer, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)number_of(request, "ports/1/state"));
	answer_u8(answer, RDMA_NLDEV_ATTR_PORT_PHYS_STATE,
		  (uint8_t)number_of(request, "ports/1/phys_state"));
	answer_u32(answer, RDMA_NLDEV_ATTR_NDEV_INDEX, interface->index);
	answer_text(answer, RDMA_NLDEV_ATTR_NDEV_NAME, interface->name);
	answer_end(answer);
}

static int get_port(struct request *request)
{
	int rc = choose_device(request);

	if (rc)
		return rc;
	if (!request->is_dump && request->value[FIELD_PORT] != 1)
		return -EINVAL;
	say_port(request);
	return 0;
}

static void say_count(struct answer *answer, const char *what, uint64_t count)
{
	size_t entry = answer_nest(answer, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);

	answer_text(answer, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, what);
	answer_u64(answer, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count);
	answer_unnest(answer, entry);
}

static int say_summary(struct request *request)
{
	struct answer *answer = request->answer;
	uint64_t qps, contexts;
	int rc = resources_count(request->name, &qps, &contexts);
	size_t table;

	if (rc)
		return rc;
	begin(request);
	table = answer_nest(answer, RDMA_NLDEV_ATTR_RES_SUMMARY);
	say_count(answer, "qp", qps);
	say_count(answer, "ctx", contexts);
	answer_unnest(answer, table);
	answer_end(answer);
	return 0;
}

static int get_summary(struct request *request)
{
	int rc = 0;

	if (!request->is_dump) {
		rc = choose_device(request);
		return rc ? rc : say_summary(request);
	}
	for (int i = 0; i < request->view.count && rc == 0; i++) {
		take_device(request, i);
		rc = say_summary(request);
	}
	return rc;
}

static bool is_connected_type(uint8_t type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC;
}

static bool has_path(uint8_t type)
{
	return is_connected_type(type) || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

static void say_qp_fields(struct answer *answer, const struct resource_qp *qp, uint32_t port)
{
	if (port)
		answer_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	answer_u32(answer, RDMA_NLDEV_ATTR_RES_LQPN, qp->qpn);
	if (is_connected_type(qp->type)) {
		answer_u32(answer, RDMA_NLDEV_ATTR_RES_RQPN, qp->dest_qpn);
		answer_u32(answer, RDMA_NLDEV_ATTR_RES_RQ_PSN, qp->rq_psn);
	}
	answer_u32(answer, RDMA_NLDEV_ATTR_RES_SQ_PSN, qp->sq_psn);
	if (has_path(qp->type))
		answer_u8(answer, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, IBV_MIG_MIGRATED);
	answer_u8(answer, RDMA_NLDEV_ATTR_RES_TYPE, qp->type);
	answer_u8(answer, RDMA_NLDEV_ATTR_RES_STATE, qp->state);
	answer_u32(answer, RDMA_NLDEV_ATTR_RES_PDN, qp->pd);
	answer_u32(answer, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)qp->pid);
}

static void say_qp(const struct resource_qp *qp, void *arg)
{
	struct request *request = arg;
	struct answer *answer = request->answer;
	uint32_t port = qp->state == IBV_QPS_RESET ? 0 : 1; /* in RESET it has none yet */
	size_t table, entry;

	if (!wants_port(request, port))
		return;
	begin(request);
	table = answer_nest(answer, RDMA_NLDEV_ATTR_RES_QP);
	entry = answer_nest(answer, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
	say_qp_fields(answer, qp, port);
	answer_unnest(answer, entry);
	answer_unnest(answer, table);
	answer_end(answer);
}

/* The answer to a request for one has its attributes without the table. */
static void say_only_qp(const struct resource_qp *qp, void *arg)
{
	struct request *request = arg;
	uint32_t port = qp->state == IBV_QPS_RESET ? 0 : 1;

	if (request->found || qp->qpn != request->value[FIELD_QPN] || !wants_port(request, port))
		return;
	request->found = true;
	begin(request);
	say_qp_fields(request->answer, qp, port);
	answer_end(request->answer);
}

static int get_qp(struct request *request)
{
	int rc = choose_device(request);

	if (rc || has_wrong_port(request))
		return rc ? rc : -EINVAL;
	if (request->is_dump)
		return resources_qps(request->name, say_qp, request);
	if (!request->has[FIELD_QPN])
		return -EINVAL;
	rc = resources_qps(request->name, say_only_qp, request);
	return rc || request->found ? rc : -ENOENT;
}

static void say_address(struct answer *answer, const struct resource_listener *listener)
{
	struct sockaddr_storage place = { .ss_family = AF_INET };
	struct sockaddr_in6 *ipv6 = (void *)&place;
	struct sockaddr_in *ipv4 = (void *)&place;

	if (listener->ipv6) {
		ipv6->sin6_family = AF_INET6;
		ipv6->sin6_port = listener->port;
		memcpy(&ipv6->sin6_addr, listener->address.raw, sizeof(ipv6->sin6_addr));
	} else {
		ipv4->sin_port = listener->port;
		memcpy(&ipv4->sin_addr, listener->address.raw + 12, sizeof(ipv4->sin_addr));
	}
	answer_bytes(answer, RDMA_NLDEV_ATTR_RES_SRC_ADDR, &place, sizeof(place));
}

static void say_listener(const struct resource_listener *listener, void *arg)
{
	struct request *request = arg;
	struct answer *answer = request->answer;
	uint32_t port = listener->any ? 0 : 1;
	size_t table, entry;

	if (!wants_port(request, port))
		return;
	begin(request);
	table = answer_nest(answer, RDMA_NLDEV_ATTR_RES_CM_ID);
	entry = answer_nest(answer, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY);
	if (port)
		answer_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	answer_u32(answer, RDMA_NLDEV_ATTR_RES_PS, listener->space);
	answer_u8(answer, RDMA_NLDEV_ATTR_RES_STATE, CM_ID_LISTENS);
	say_address(answer, listener);
	answer_u32(answer, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)listener->pid);
	answer_unnest(answer, entry);
	answer_unnest(answer, table);
	answer_end(answer);
}

/* Verbatimd knows no listeners of iWARP. */
static int get_cm_id(struct request *request)
{
	int rc = choose_device(request);

	if (rc || has_wrong_port(request))
		return rc ? rc : -EINVAL;
	if (!request->is_dump)
		return -EOPNOTSUPP;
	if (request->view.iwarp)
		return 0;
	return resources_listeners(&request->view.devices[request->device], say_listener, request);
}

static int carry_out(struct request *request)
{
	unsigned type = request->header->nlmsg_type;

	if (RDMA_NL_GET_CLIENT(type) != RDMA_NL_NLDEV)
		return -EOPNOTSUPP;
	switch (RDMA_NL_GET_OP(type)) {
	case RDMA_NLDEV_CMD_GET:
		return get_device(request);
	case RDMA_NLDEV_CMD_PORT_GET:
		return get_port(request);
	case RDMA_NLDEV_CMD_RES_GET:
		return get_summary(request);
	case RDMA_NLDEV_CMD_RES_QP_GET:
		return get_qp(request);
	case RDMA_NLDEV_CMD_RES_CM_ID_GET:
		return get_cm_id(request);
	default:
		return -EOPNOTSUPP;
	}
}

static int answer_one(struct request *request)
{
	int rc = view_load(&request->view);

	if (rc < 0)
		return rc;
	parse(request);
	rc = carry_out(request);
	view_free(&request->view);
	return rc;
}

/* Of an answer that did not fit nothing is left but the error, for which there is memory. */
static void answer_message(const struct nlmsghdr *header, struct answer *answer)
{
	struct request request = {
		.header = header,
		.is_dump = header->nlmsg_flags & NLM_F_DUMP,
		.answer = answer,
	};
	size_t before = answer->len;
	int rc = 0;

	if (header->nlmsg_type >= NLMSG_MIN_TYPE && header->nlmsg_flags & NLM_F_REQUEST)
		rc = answer_one(&request);
	else
		request.is_dump = false;
	rc = rc ? rc : answer->error;
	if (rc) {
		answer_cut(answer, before);
		answer_status(answer, header, rc);
	} else if (request.is_dump) {
		answer_done(answer);
	} else if (header->nlmsg_flags & NLM_F_ACK) {
		answer_status(answer, header, 0);
	}
}

void nldev_answer(const void *bytes, size_t len, uint32_t port, struct answer *answer)
{
	const struct nlmsghdr *header = bytes;

	while (len >= NLMSG_HDRLEN && header->nlmsg_len >= NLMSG_HDRLEN &&
	       header->nlmsg_len <= len) {
		size_t used = NLMSG_ALIGN(header->nlmsg_len);

		answer_request(answer, header, port);
		answer_message(header, answer);
		if (used >= len)
			return;
		header = (const void *)((const char *)header + used);
		len -= used;
	}
}
