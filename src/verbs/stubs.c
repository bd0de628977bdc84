/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Four kinds of stubs: entries of the op table, exported names of newer rdma-core, exported names
 * of before 2007, and the private interface of rdma-core's provider libraries.
 */
#include "verbs/stubs.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/opcode.h"
#include "verbs/error.h"
#include "verbs/export.h"
#include "verbs/undeclared.h"

/*
 * A STUB_ macro defines one exported function, which ignores its arguments and fails as its callers
 * expect. Where <infiniband/verbs.h> may declare the name, the stub has another name, and
 * VERBS_VERSION exports it.
 */
#define STUB(type, name, ...)                                                                      \
	VERBS_EXPORT type name(void);                                                              \
	type name(void)                                                                            \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

/* int: returns the errno */
#define STUB_ERRNO(name) STUB(int, name, return EOPNOTSUPP;)

/* int: -1 and errno, where a positive result is a count or a descriptor */
#define STUB_MINUS_ONE(name) STUB(int, name, errno = EOPNOTSUPP; return -1;)

/* pointer: NULL and errno */
#define STUB_NULL(name) STUB(void *, name, errno = EOPNOTSUPP; return NULL;)

#define STUB_NOTHING(name) STUB(void, name, )

/* Entries of the op table, which report a cause, as all failing verbs do */

static int not_supported(const char *verb)
{
	return error_report(EOPNOTSUPP, CAUSE_UNSUPPORTED, "%s", verb);
}

#define OP_ERRNO(op, ...)                                                                          \
	static int op(__VA_ARGS__)                                                                 \
	{                                                                                          \
		return not_supported("ibv_" #op);                                                  \
	}

#define OP_NULL(type, op, ...)                                                                     \
	static struct type *op(__VA_ARGS__)                                                        \
	{                                                                                          \
		not_supported("ibv_" #op);                                                         \
		return NULL;                                                                       \
	}

/* Encryption of flows */
OP_NULL(ibv_flow_action, create_flow_action_esp, struct ibv_context *context,
	struct ibv_flow_action_esp_attr *attr)
OP_ERRNO(modify_flow_action_esp, struct ibv_flow_action *action,
	 struct ibv_flow_action_esp_attr *attr)
OP_ERRNO(destroy_flow_action, struct ibv_flow_action *action)

/* Raw receive queues */
OP_NULL(ibv_wq, create_wq, struct ibv_context *context, struct ibv_wq_init_attr *attr)
OP_ERRNO(modify_wq, struct ibv_wq *wq, struct ibv_wq_attr *attr)
OP_ERRNO(destroy_wq, struct ibv_wq *wq)
OP_NULL(ibv_rwq_ind_table, create_rwq_ind_table, struct ibv_context *context,
	struct ibv_rwq_ind_table_init_attr *attr)
OP_ERRNO(destroy_rwq_ind_table, struct ibv_rwq_ind_table *table)

void stubs_fill(struct verbs_context *verbs)
{
	verbs->create_flow_action_esp = create_flow_action_esp;
	verbs->modify_flow_action_esp = modify_flow_action_esp;
	verbs->destroy_flow_action = destroy_flow_action;
	verbs->create_wq = create_wq;
	verbs->modify_wq = modify_wq;
	verbs->destroy_wq = destroy_wq;
	verbs->create_rwq_ind_table = create_rwq_ind_table;
	verbs->destroy_rwq_ind_table = destroy_rwq_ind_table;
}

/*
 * Exported names of rdma-core since version 45.
 *
 * Callers take EOPNOTSUPP for "the device cannot". To implement one, remove its line here and
 * define it elsewhere under its plain name. The map has it already.
 */
#define NEWER(stub, name, node) stub(newer_##name) VERBS_VERSION(newer_##name, name, "@@" node)

NEWER(STUB_NULL, ibv_alloc_dmah, "IBVERBS_1.15");
NEWER(STUB_ERRNO, ibv_dealloc_dmah, "IBVERBS_1.15");

NEWER(STUB_MINUS_ONE, ibv_dm_export_dmabuf_fd, "IBVERBS_1.16");

NEWER(STUB_ERRNO, _ibv_query_comp_cntr_caps, "IBVERBS_1.18");
NEWER(STUB_NULL, ibv_create_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_destroy_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_inc_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_inc_err_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_qp_attach_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_read_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_read_err_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_set_comp_cntr, "IBVERBS_1.18");
NEWER(STUB_ERRNO, ibv_set_err_comp_cntr, "IBVERBS_1.18");

/*
 * The names of IBVERBS_1.0, whose structs had another layout before 2007, and one of 1.1.
 *
 * Programs built since then do not bind to them. An older program starts, and finds an empty list
 * of devices.
 */

#define OLD(stub, name) stub(old_##name) VERBS_VERSION(old_##name, ibv_##name, "@IBVERBS_1.0")

VERBS_EXPORT void *old_get_device_list(int *num_devices);
void *old_get_device_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	errno = EOPNOTSUPP;
	return NULL;
}
VERBS_VERSION(old_get_device_list, ibv_get_device_list, "@IBVERBS_1.0");

VERBS_EXPORT uint64_t old_get_device_guid(void);
uint64_t old_get_device_guid(void)
{
	return 0;
}
VERBS_VERSION(old_get_device_guid, ibv_get_device_guid, "@IBVERBS_1.0");

OLD(STUB_NOTHING, ack_async_event);
OLD(STUB_NOTHING, ack_cq_events);
OLD(STUB_NULL, alloc_pd);
OLD(STUB_ERRNO, attach_mcast);
OLD(STUB_ERRNO, close_device);
OLD(STUB_NULL, create_ah);
OLD(STUB_NULL, create_cq);
OLD(STUB_NULL, create_qp);
OLD(STUB_NULL, create_srq);
OLD(STUB_ERRNO, dealloc_pd);
OLD(STUB_ERRNO, dereg_mr);
OLD(STUB_ERRNO, destroy_ah);
OLD(STUB_ERRNO, destroy_cq);
OLD(STUB_ERRNO, destroy_qp);
OLD(STUB_ERRNO, destroy_srq);
OLD(STUB_ERRNO, detach_mcast);
OLD(STUB_NOTHING, free_device_list);
OLD(STUB_MINUS_ONE, get_async_event);
OLD(STUB_MINUS_ONE, get_cq_event);
OLD(STUB_NULL, get_device_name);
OLD(STUB_ERRNO, modify_qp);
OLD(STUB_ERRNO, modify_srq);
OLD(STUB_NULL, open_device);
OLD(STUB_ERRNO, query_device);
OLD(STUB_MINUS_ONE, query_gid);
OLD(STUB_MINUS_ONE, query_pkey);
OLD(STUB_ERRNO, query_port);
OLD(STUB_ERRNO, query_qp);
OLD(STUB_ERRNO, query_srq);
OLD(STUB_NULL, reg_mr);
OLD(STUB_ERRNO, resize_cq);

/* Provider libraries of before 2010 register themselves with this. */
STUB_NOTHING(old_register_driver)
VERBS_VERSION(old_register_driver, ibv_register_driver, "@IBVERBS_1.1");

/*
 * The private interface between rdma-core's libibverbs and its provider libraries.
 *
 * Programs link provider libraries (perftest: libmlx5 and libefa), which bind all of these names.
 * Their constructors register drivers, which Verbatim ignores, as it has its own devices. Other
 * calls hardly occur.
 */

/* Exports private_<name> as <name> in one more node. */
#define ALSO(name, number)                                                                         \
	extern VERBS_EXPORT __typeof__(private_##name) name##_##number                             \
		__attribute__((alias("private_" #name)));                                          \
	VERBS_VERSION(name##_##number, name, "@IBVERBS_PRIVATE_" #number)

/* The nodes of private_<name>, from its first one on. */
#define NODES_64(name)                                                                             \
	VERBS_VERSION(private_##name, name, "@@IBVERBS_PRIVATE_64");                               \
	ALSO(name, 65)
#define NODES_59(name)                                                                             \
	VERBS_VERSION(private_##name, name, "@@IBVERBS_PRIVATE_59");                               \
	ALSO(name, 64);                                                                            \
	ALSO(name, 65)
#define NODES_34(name)                                                                             \
	VERBS_VERSION(private_##name, name, "@@IBVERBS_PRIVATE_34");                               \
	ALSO(name, 57);                                                                            \
	ALSO(name, 59);                                                                            \
	ALSO(name, 64);                                                                            \
	ALSO(name, 65)

#define SINCE_34(stub, name) stub(private_##name) NODES_34(name)
#define SINCE_59(stub, name) stub(private_##name) NODES_59(name)
#define SINCE_64(stub, name) stub(private_##name) NODES_64(name)

STUB_NOTHING(verbs_register_driver_34)
STUB_NOTHING(verbs_register_driver_57)
STUB_NOTHING(verbs_register_driver_59)
STUB_NOTHING(verbs_register_driver_64)
STUB_NOTHING(verbs_register_driver_65)

/* in IBVERBS_PRIVATE_34 only */
STUB_ERRNO(ibv_cmd_query_device)

/* commands to a kernel */
SINCE_34(STUB_ERRNO, ibv_cmd_advise_mr);
SINCE_34(STUB_ERRNO, ibv_cmd_alloc_dm);
SINCE_34(STUB_ERRNO, ibv_cmd_alloc_mw);
SINCE_34(STUB_ERRNO, ibv_cmd_alloc_pd);
SINCE_34(STUB_ERRNO, ibv_cmd_attach_mcast);
SINCE_34(STUB_ERRNO, ibv_cmd_close_xrcd);
SINCE_34(STUB_ERRNO, ibv_cmd_create_ah);
SINCE_34(STUB_ERRNO, ibv_cmd_create_counters);
SINCE_34(STUB_ERRNO, ibv_cmd_create_cq);
SINCE_34(STUB_ERRNO, ibv_cmd_create_cq_ex);
SINCE_34(STUB_ERRNO, ibv_cmd_create_cq_ex2);
SINCE_34(STUB_ERRNO, ibv_cmd_create_flow);
SINCE_34(STUB_ERRNO, ibv_cmd_create_flow_action_esp);
SINCE_34(STUB_ERRNO, ibv_cmd_create_qp);
SINCE_34(STUB_ERRNO, ibv_cmd_create_qp_ex);
SINCE_34(STUB_ERRNO, ibv_cmd_create_qp_ex2);
SINCE_34(STUB_ERRNO, ibv_cmd_create_rwq_ind_table);
SINCE_34(STUB_ERRNO, ibv_cmd_create_srq);
SINCE_34(STUB_ERRNO, ibv_cmd_create_srq_ex);
SINCE_34(STUB_ERRNO, ibv_cmd_create_wq);
SINCE_34(STUB_ERRNO, ibv_cmd_dealloc_mw);
SINCE_34(STUB_ERRNO, ibv_cmd_dealloc_pd);
SINCE_34(STUB_ERRNO, ibv_cmd_dereg_mr);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_ah);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_counters);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_cq);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_flow);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_flow_action);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_qp);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_rwq_ind_table);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_srq);
SINCE_34(STUB_ERRNO, ibv_cmd_destroy_wq);
SINCE_34(STUB_ERRNO, ibv_cmd_detach_mcast);
SINCE_34(STUB_ERRNO, ibv_cmd_free_dm);
SINCE_34(STUB_ERRNO, ibv_cmd_get_context);
SINCE_34(STUB_ERRNO, ibv_cmd_modify_cq);
SINCE_34(STUB_ERRNO, ibv_cmd_modify_flow_action_esp);
SINCE_34(STUB_ERRNO, ibv_cmd_modify_qp);
SINCE_34(STUB_ERRNO, ibv_cmd_modify_qp_ex);
SINCE_34(STUB_ERRNO, ibv_cmd_modify_srq);
SINCE_34(STUB_ERRNO, ibv_cmd_modify_wq);
SINCE_34(STUB_ERRNO, ibv_cmd_open_qp);
SINCE_34(STUB_ERRNO, ibv_cmd_open_xrcd);
SINCE_34(STUB_MINUS_ONE, ibv_cmd_poll_cq);
SINCE_34(STUB_ERRNO, ibv_cmd_post_recv);
SINCE_34(STUB_ERRNO, ibv_cmd_post_send);
SINCE_34(STUB_ERRNO, ibv_cmd_post_srq_recv);
SINCE_34(STUB_ERRNO, ibv_cmd_query_context);
SINCE_34(STUB_ERRNO, ibv_cmd_query_device_any);
SINCE_34(STUB_ERRNO, ibv_cmd_query_mr);
SINCE_34(STUB_ERRNO, ibv_cmd_query_port);
SINCE_34(STUB_ERRNO, ibv_cmd_query_qp);
SINCE_34(STUB_ERRNO, ibv_cmd_query_srq);
SINCE_34(STUB_ERRNO, ibv_cmd_read_counters);
SINCE_34(STUB_ERRNO, ibv_cmd_reg_dm_mr);
SINCE_34(STUB_ERRNO, ibv_cmd_reg_dmabuf_mr);
SINCE_34(STUB_ERRNO, ibv_cmd_reg_mr);
SINCE_34(STUB_ERRNO, ibv_cmd_req_notify_cq);
SINCE_34(STUB_ERRNO, ibv_cmd_rereg_mr);
SINCE_34(STUB_ERRNO, ibv_cmd_resize_cq);

/* the life of a provider's device and context */
SINCE_34(STUB_ERRNO, execute_ioctl);
SINCE_34(STUB_MINUS_ONE, ibv_read_ibdev_sysfs_file);
SINCE_34(STUB_NULL, _verbs_init_and_alloc_context);
SINCE_34(STUB_NOTHING, verbs_init_cq);
SINCE_34(STUB_NOTHING, __verbs_log);
SINCE_34(STUB_NULL, verbs_open_device);
SINCE_34(STUB_NOTHING, verbs_set_ops);
SINCE_34(STUB_NOTHING, verbs_uninit_context);

/* A variable that providers may write: whether objects of a removed device may be destroyed. */
VERBS_EXPORT bool private_verbs_allow_disassociate_destroy;
NODES_34(verbs_allow_disassociate_destroy);

VERBS_EXPORT unsigned int private___ioctl_final_num_attrs(void);
unsigned int private___ioctl_final_num_attrs(void)
{
	return 0;
}
NODES_34(__ioctl_final_num_attrs);

VERBS_EXPORT const char *private_ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
const char *private_ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	/* opcodes that no QP has here */
	if (opcode == IBV_WR_TSO || opcode == IBV_WR_DRIVER1)
		return opcode == IBV_WR_TSO ? "TSO" : "DRIVER1";
	return (unsigned int)opcode < OPCODES && opcodes[opcode].name ? opcodes[opcode].name
								      : "unknown";
}
NODES_34(ibv_wr_opcode_str);

/* This one works: gid.c defines it with the default version, and this adds the others. */
#pragma weak ibv_query_gid_type
VERBS_EXPORT int private_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
					    unsigned int index, int *type);
int private_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			       int *type)
{
	return ibv_query_gid_type(context, port_num, index, type);
}
ALSO(ibv_query_gid_type, 57);
ALSO(ibv_query_gid_type, 59);
ALSO(ibv_query_gid_type, 64);
ALSO(ibv_query_gid_type, 65);

/* from IBVERBS_PRIVATE_59 on */
SINCE_59(STUB_ERRNO, ibv_cmd_alloc_dmah);
SINCE_59(STUB_MINUS_ONE, ibv_cmd_export_dmabuf_fd);
SINCE_59(STUB_ERRNO, ibv_cmd_free_dmah);
SINCE_59(STUB_ERRNO, ibv_cmd_query_port_speed);
SINCE_59(STUB_ERRNO, ibv_cmd_reg_mr_ex);

/* from IBVERBS_PRIVATE_64 on */
SINCE_64(STUB_NULL, ibv_dmabuf_heap_alloc);
SINCE_64(STUB_NULL, ibv_dmabuf_heap_cc_shared_init);
SINCE_64(STUB_NOTHING, ibv_dmabuf_heap_destroy);
SINCE_64(STUB_NOTHING, ibv_dmabuf_heap_free);

/* from IBVERBS_PRIVATE_65 on */
STUB_ERRNO(ibv_cmd_create_comp_cntr)
STUB_ERRNO(ibv_cmd_destroy_comp_cntr)
STUB_ERRNO(ibv_cmd_inc_comp_cntr)
STUB_ERRNO(ibv_cmd_inc_err_comp_cntr)
STUB_ERRNO(ibv_cmd_qp_attach_comp_cntr)
STUB_ERRNO(ibv_cmd_query_comp_cntr_caps)
STUB_ERRNO(ibv_cmd_read_comp_cntr)
STUB_ERRNO(ibv_cmd_read_err_comp_cntr)
STUB_ERRNO(ibv_cmd_set_comp_cntr)
STUB_ERRNO(ibv_cmd_set_err_comp_cntr)
