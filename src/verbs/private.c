/*
 * The private interface between rdma-core's libibverbs and its provider libraries.
 *
 * Programs pull provider libraries in (perftest needs libmlx5 and libefa), and those bind all of
 * these names when they are loaded; on Verbatim's devices next to none is ever called. Providers
 * register themselves from constructors, which changes nothing here: Verbatim has its own devices.
 */
#include <stdbool.h>

#include "object/opcode.h"
#include "verbs/answer.h"
#include "verbs/private.h"

/* One more node in which answer_<name> is called <name>. */
#define ALSO(name, number)                                                                         \
	extern VERBS_EXPORT __typeof__(answer_##name) name##_##number                              \
	    __attribute__((alias("answer_" #name)));                                               \
	VERBS_VERSION(name##_##number, name, "@IBVERBS_PRIVATE_" #number)

/* The nodes that have answer_<name>, from the one where it first appeared. */
#define NODES_64(name)                                                                             \
	VERBS_VERSION(answer_##name, name, "@@IBVERBS_PRIVATE_64");                                \
	ALSO(name, 65)
#define NODES_59(name)                                                                             \
	VERBS_VERSION(answer_##name, name, "@@IBVERBS_PRIVATE_59");                                \
	ALSO(name, 64);                                                                            \
	ALSO(name, 65)
#define NODES_34(name)                                                                             \
	VERBS_VERSION(answer_##name, name, "@@IBVERBS_PRIVATE_34");                                \
	ALSO(name, 57);                                                                            \
	ALSO(name, 59);                                                                            \
	ALSO(name, 64);                                                                            \
	ALSO(name, 65)

#define SINCE_34(answer, name) answer(answer_##name) NODES_34(name)
#define SINCE_59(answer, name) answer(answer_##name) NODES_59(name)
#define SINCE_64(answer, name) answer(answer_##name) NODES_64(name)

ANSWER_NOTHING(verbs_register_driver_34)
ANSWER_NOTHING(verbs_register_driver_57)
ANSWER_NOTHING(verbs_register_driver_59)
ANSWER_NOTHING(verbs_register_driver_64)
ANSWER_NOTHING(verbs_register_driver_65)

/* in IBVERBS_PRIVATE_34 only */
ANSWER_ERRNO(ibv_cmd_query_device)

/* commands to a kernel */
SINCE_34(ANSWER_ERRNO, ibv_cmd_advise_mr);
SINCE_34(ANSWER_ERRNO, ibv_cmd_alloc_dm);
SINCE_34(ANSWER_ERRNO, ibv_cmd_alloc_mw);
SINCE_34(ANSWER_ERRNO, ibv_cmd_alloc_pd);
SINCE_34(ANSWER_ERRNO, ibv_cmd_attach_mcast);
SINCE_34(ANSWER_ERRNO, ibv_cmd_close_xrcd);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_ah);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_counters);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_cq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_cq_ex);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_cq_ex2);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_flow);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_flow_action_esp);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_qp);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_qp_ex);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_qp_ex2);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_rwq_ind_table);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_srq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_srq_ex);
SINCE_34(ANSWER_ERRNO, ibv_cmd_create_wq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_dealloc_mw);
SINCE_34(ANSWER_ERRNO, ibv_cmd_dealloc_pd);
SINCE_34(ANSWER_ERRNO, ibv_cmd_dereg_mr);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_ah);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_counters);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_cq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_flow);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_flow_action);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_qp);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_rwq_ind_table);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_srq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_destroy_wq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_detach_mcast);
SINCE_34(ANSWER_ERRNO, ibv_cmd_free_dm);
SINCE_34(ANSWER_ERRNO, ibv_cmd_get_context);
SINCE_34(ANSWER_ERRNO, ibv_cmd_modify_cq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_modify_flow_action_esp);
SINCE_34(ANSWER_ERRNO, ibv_cmd_modify_qp);
SINCE_34(ANSWER_ERRNO, ibv_cmd_modify_qp_ex);
SINCE_34(ANSWER_ERRNO, ibv_cmd_modify_srq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_modify_wq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_open_qp);
SINCE_34(ANSWER_ERRNO, ibv_cmd_open_xrcd);
SINCE_34(ANSWER_MINUS_ONE, ibv_cmd_poll_cq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_post_recv);
SINCE_34(ANSWER_ERRNO, ibv_cmd_post_send);
SINCE_34(ANSWER_ERRNO, ibv_cmd_post_srq_recv);
SINCE_34(ANSWER_ERRNO, ibv_cmd_query_context);
SINCE_34(ANSWER_ERRNO, ibv_cmd_query_device_any);
SINCE_34(ANSWER_ERRNO, ibv_cmd_query_mr);
SINCE_34(ANSWER_ERRNO, ibv_cmd_query_port);
SINCE_34(ANSWER_ERRNO, ibv_cmd_query_qp);
SINCE_34(ANSWER_ERRNO, ibv_cmd_query_srq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_read_counters);
SINCE_34(ANSWER_ERRNO, ibv_cmd_reg_dm_mr);
SINCE_34(ANSWER_ERRNO, ibv_cmd_reg_dmabuf_mr);
SINCE_34(ANSWER_ERRNO, ibv_cmd_reg_mr);
SINCE_34(ANSWER_ERRNO, ibv_cmd_req_notify_cq);
SINCE_34(ANSWER_ERRNO, ibv_cmd_rereg_mr);
SINCE_34(ANSWER_ERRNO, ibv_cmd_resize_cq);

/* the life of a provider's device and context */
SINCE_34(ANSWER_ERRNO, execute_ioctl);
SINCE_34(ANSWER_MINUS_ONE, ibv_read_ibdev_sysfs_file);
SINCE_34(ANSWER_NULL, _verbs_init_and_alloc_context);
SINCE_34(ANSWER_NOTHING, verbs_init_cq);
SINCE_34(ANSWER_NOTHING, __verbs_log);
SINCE_34(ANSWER_NULL, verbs_open_device);
SINCE_34(ANSWER_NOTHING, verbs_set_ops);
SINCE_34(ANSWER_NOTHING, verbs_uninit_context);

/* A provider's permission to destroy objects of a device that is gone. Providers may write it. */
VERBS_EXPORT bool answer_verbs_allow_disassociate_destroy;
NODES_34(verbs_allow_disassociate_destroy);

VERBS_EXPORT unsigned int answer___ioctl_final_num_attrs(void);
unsigned int answer___ioctl_final_num_attrs(void)
{
	return 0;
}
NODES_34(__ioctl_final_num_attrs);

VERBS_EXPORT const char *answer_ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
const char *answer_ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	/* those that no QP has here */
	if (opcode == IBV_WR_TSO || opcode == IBV_WR_DRIVER1)
		return opcode == IBV_WR_TSO ? "TSO" : "DRIVER1";
	return (unsigned int)opcode < OPCODES && opcodes[opcode].name ? opcodes[opcode].name : "unknown";
}
NODES_34(ibv_wr_opcode_str);

/* The one that is real: its definition has the default version, this one the others. */
#pragma weak ibv_query_gid_type
VERBS_EXPORT int answer_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
					   unsigned int index, enum ibv_gid_type_sysfs *type);
int answer_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			      enum ibv_gid_type_sysfs *type)
{
	return ibv_query_gid_type(context, port_num, index, type);
}
ALSO(ibv_query_gid_type, 57);
ALSO(ibv_query_gid_type, 59);
ALSO(ibv_query_gid_type, 64);
ALSO(ibv_query_gid_type, 65);

/* from IBVERBS_PRIVATE_59 on */
SINCE_59(ANSWER_ERRNO, ibv_cmd_alloc_dmah);
SINCE_59(ANSWER_MINUS_ONE, ibv_cmd_export_dmabuf_fd);
SINCE_59(ANSWER_ERRNO, ibv_cmd_free_dmah);
SINCE_59(ANSWER_ERRNO, ibv_cmd_query_port_speed);
SINCE_59(ANSWER_ERRNO, ibv_cmd_reg_mr_ex);

/* from IBVERBS_PRIVATE_64 on */
SINCE_64(ANSWER_NULL, ibv_dmabuf_heap_alloc);
SINCE_64(ANSWER_NULL, ibv_dmabuf_heap_cc_shared_init);
SINCE_64(ANSWER_NOTHING, ibv_dmabuf_heap_destroy);
SINCE_64(ANSWER_NOTHING, ibv_dmabuf_heap_free);

/* from IBVERBS_PRIVATE_65 on */
ANSWER_ERRNO(ibv_cmd_create_comp_cntr)
ANSWER_ERRNO(ibv_cmd_destroy_comp_cntr)
ANSWER_ERRNO(ibv_cmd_inc_comp_cntr)
ANSWER_ERRNO(ibv_cmd_inc_err_comp_cntr)
ANSWER_ERRNO(ibv_cmd_qp_attach_comp_cntr)
ANSWER_ERRNO(ibv_cmd_query_comp_cntr_caps)
ANSWER_ERRNO(ibv_cmd_read_comp_cntr)
ANSWER_ERRNO(ibv_cmd_read_err_comp_cntr)
ANSWER_ERRNO(ibv_cmd_set_comp_cntr)
ANSWER_ERRNO(ibv_cmd_set_err_comp_cntr)
