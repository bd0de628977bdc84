/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/query.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "netdev/device.h"
#include "base/identity.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/dm.h"
#include "object/limits.h"
#include "base/compat.h"
#include "verbs/export.h"
#include "verbs/link.h"
#include "verbs/error.h"

#undef ibv_query_port

#define PORT_ATTR_COMPAT_SIZE 48 /* bytes of struct ibv_port_attr before port_cap_flags2 */
#define HCA_CLOCK_KHZ	      1000000

#define CAP_FLAGS                                                                                  \
	(IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |    \
	 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |           \
	 IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC | IBV_DEVICE_MANAGED_FLOW_STEERING)

#define RNIC_CAP_FLAGS                                                                             \
	(IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |               \
	 IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS)

static uint32_t vendor_part_id(void)
{
	const char *value = secure_getenv("VERBATIM_VENDOR_PART_ID");
	char *end;
	unsigned long number;

	if (!value || !*value)
		return IDENTITY_VENDOR_PART_ID;
	number = strtoul(value, &end, 0);
	return *end || number > UINT32_MAX ? IDENTITY_VENDOR_PART_ID : number;
}

/* iWARP has RC alone: no datagrams, no P_Keys; a READ's sink is one region. */
static void narrow_to_rnic(struct ibv_device_attr *attr)
{
	attr->device_cap_flags = RNIC_CAP_FLAGS;
	attr->max_sge_rd = 1;
	attr->atomic_cap = IBV_ATOMIC_NONE;
	attr->max_raw_ethy_qp = 0;
	attr->max_mcast_grp = attr->max_mcast_qp_attach = attr->max_total_mcast_qp_attach = 0;
	attr->max_ah = 0;
	attr->max_pkeys = 0;
	attr->local_ca_ack_delay = 0;
}

int verbs_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	UNCANCELLED;
	struct device *device = context_of(context)->device;

	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, VERBATIM_VERSION);
	lock_acquire(&device->lock);
	attr->node_guid = attr->sys_image_guid = htobe64(device->guid);
	lock_release(&device->lock);
	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = ~UINT64_C(4095);
	attr->vendor_id = IDENTITY_VENDOR_ID;
	attr->vendor_part_id = vendor_part_id();
	attr->hw_ver = IDENTITY_HW_VER;
	attr->max_qp = LIMIT_QP;
	attr->max_qp_wr = LIMIT_QP_WR;
	attr->device_cap_flags = CAP_FLAGS;
	attr->max_sge = LIMIT_SGE;
	attr->max_sge_rd = LIMIT_SGE_RD;
	attr->max_cq = LIMIT_CQ;
	attr->max_cqe = LIMIT_CQE;
	attr->max_mr = LIMIT_MR;
	attr->max_pd = LIMIT_PD;
	attr->max_qp_rd_atom = LIMIT_QP_RD_ATOM;
	attr->max_res_rd_atom = LIMIT_QP_RD_ATOM * LIMIT_QP;
	attr->max_qp_init_rd_atom = LIMIT_QP_RD_ATOM;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_mw = LIMIT_MW;
	if (!context_of(context)->infiniband)
		attr->max_raw_ethy_qp = LIMIT_RAW_QP;
	attr->max_mcast_grp = LIMIT_MCAST_GRP;
	attr->max_mcast_qp_attach = LIMIT_MCAST_QP_ATTACH;
	attr->max_total_mcast_qp_attach = LIMIT_TOTAL_MCAST_QP_ATTACH;
	attr->max_ah = LIMIT_AH;
	attr->max_srq = LIMIT_SRQ;
	attr->max_srq_wr = LIMIT_SRQ_WR;
	attr->max_srq_sge = LIMIT_SRQ_SGE;
	attr->max_pkeys = LIMIT_PKEYS;
	attr->local_ca_ack_delay = 15;
	attr->phys_port_cnt = DEVICE_PORT;
	if (device->is_rnic)
		narrow_to_rnic(attr);
	return 0;
}

VERBS_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return verbs_query_device(context, attr);
}

#define ODP_UD (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_UC (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE)
#define ODP_RC                                                                                     \
	(ODP_UD | ODP_UC | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | COMPAT_ODP_FLUSH |      \
	 COMPAT_ODP_ATOMIC_WRITE)
#define ODP_RNIC (ODP_UD | ODP_UC | IBV_ODP_SUPPORT_READ)

int verbs_query_device_ex(struct ibv_context *context,
			  const struct ibv_query_device_ex_input *input,
			  struct ibv_device_attr_ex *attr, size_t attr_size)
{
	UNCANCELLED;
	struct ibv_device_attr_ex all = {
	    .odp_caps =
		{
		    .general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
		    .per_transport_caps =
			{
			    .rc_odp_caps = ODP_RC,
			    .uc_odp_caps = ODP_UC,
			    .ud_odp_caps = ODP_UD,
			},
		},
	    .completion_timestamp_mask = UINT64_MAX,
	    .hca_core_clock = HCA_CLOCK_KHZ,
	    .device_cap_flags_ex = CAP_FLAGS | COMPAT_DEVICE_FLUSH_GLOBAL | COMPAT_DEVICE_ATOMIC_WRITE,
	    .cq_mod_caps =
		{
		    .max_cq_count = LIMIT_CQ_MODERATE,
		    .max_cq_period = LIMIT_CQ_MODERATE,
		},
	    .max_dm_size = DM_BYTES_MAX,
	    .phys_port_cnt_ex = DEVICE_PORT,
	    .xrc_odp_caps = ODP_RC,
	};

	if (input && input->comp_mask)
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "comp_mask 0x%x",
				    input->comp_mask);
	if (attr_size < sizeof(attr->orig_attr))
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "ibv_query_device_ex: size %zu",
				    attr_size);
	verbs_query_device(context, &all.orig_attr);
	if (context_of(context)->iwarp) {
		all.device_cap_flags_ex = RNIC_CAP_FLAGS;
		all.odp_caps.per_transport_caps.rc_odp_caps = ODP_RNIC;
		all.odp_caps.per_transport_caps.uc_odp_caps = 0;
		all.odp_caps.per_transport_caps.ud_odp_caps = 0;
		all.xrc_odp_caps = 0;
	}
	memset(attr, 0, attr_size);
	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	return 0;
}

/* Bytes of IPv6, UDP, BTH, XRCETH, AtomicETH and ICRC; rxe and the kernel reserve as many. */
#define HEADERS (40 + 8 + 12 + 4 + 28 + 4)

enum ibv_mtu query_active_mtu(uint32_t interface_mtu)
{
	uint32_t payload = interface_mtu > HEADERS ? interface_mtu - HEADERS : 0;
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && payload >= 256u << mtu)
		mtu++;
	return mtu;
}

/* As siw: without headers, which TCP sees to. */
static enum ibv_mtu rnic_mtu(uint32_t interface_mtu)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && interface_mtu >= 256u << mtu)
		mtu++;
	return mtu;
}

int verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		     size_t attr_len)
{
	UNCANCELLED;
	struct device *device = context_of(context)->device;
	bool infiniband = context_of(context)->infiniband;
	uint32_t mtu;
	struct ibv_port_attr all = {
		.max_mtu = IBV_MTU_4096,
		.gid_tbl_len = DEVICE_GIDS,
		.port_cap_flags =
			IDENTITY_PORT_CAP_FLAGS | (infiniband ? 0 : IDENTITY_ROCE_CAP_FLAGS),
		.max_msg_sz = LIMIT_MESSAGE,
		.pkey_tbl_len = LIMIT_PKEYS,
		.max_vl_num = 1,
		.active_width = IDENTITY_WIDTH_4X,
		.active_speed = IDENTITY_SPEED_EDR,
		.link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
		.flags = infiniband ? 0 : IBV_QPF_GRH_REQUIRED,
	};

	if (port_num != DEVICE_PORT)
		return error_report(EINVAL, CAUSE_PORT_UNKNOWN, "port %u", port_num);
	lock_acquire(&device->lock);
	all.state = device->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	all.phys_state = device->up ? IDENTITY_PHYS_STATE_LINK_UP : IDENTITY_PHYS_STATE_DISABLED;
	mtu = device->mtu;
	all.active_mtu = query_active_mtu(mtu);
	lock_release(&device->lock);
	if (device->is_rnic) {
		all.gid_tbl_len = DEVICE_RNIC_GIDS;
		all.port_cap_flags = IDENTITY_RNIC_CAP_FLAGS;
		all.pkey_tbl_len = 0;
		all.max_vl_num = 0;
		all.flags = 0;
		all.active_mtu = all.max_mtu = rnic_mtu(mtu);
	}
	if (infiniband) {
		all.lid = all.sm_lid = link_lid(context_of(context));
		if (!all.lid && all.state == IBV_PORT_ACTIVE)
			all.state = IBV_PORT_INIT; /* as before a subnet manager assigns a LID */
	}
	memset(attr, 0, attr_len);
	memcpy(attr, &all, attr_len < sizeof(all) ? attr_len : sizeof(all));
	return 0;
}

int verbs_query_port_compat(struct ibv_context *context, uint8_t port_num,
			    struct _compat_ibv_port_attr *attr)
{
	return verbs_query_port(context, port_num, (struct ibv_port_attr *)attr,
				PORT_ATTR_COMPAT_SIZE);
}

VERBS_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num,
				struct _compat_ibv_port_attr *attr)
{
	return verbs_query_port_compat(context, port_num, attr);
}

/* Of IBVERBS_1.16, which is newer than the headers of Debian 12. */
VERBS_EXPORT int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
				      uint64_t *port_speed);

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	if (port_num != DEVICE_PORT)
		return error_report(EINVAL, CAUSE_PORT_UNKNOWN, "port %u", port_num);
	*port_speed = IDENTITY_SPEED_100_MBPS;
	return 0;
}

/* The clock of completion timestamps, as nanoseconds in tv_nsec: a raw clock has no seconds. */
int verbs_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;

	values->comp_mask = 0;
	if (asked & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)clock_now_ns();
		values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	}
	return 0;
}
