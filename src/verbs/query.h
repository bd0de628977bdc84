/* SPDX-License-Identifier: BSD-2-Clause */
/* Query - verbs that query a device and its port: entries of the op tables. */
#ifndef VERBS_QUERY_H
#define VERBS_QUERY_H

#include <infiniband/verbs.h>

struct _compat_ibv_port_attr;

int verbs_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int verbs_query_device_ex(struct ibv_context *context,
			  const struct ibv_query_device_ex_input *input,
			  struct ibv_device_attr_ex *attr, size_t attr_size);
int verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		     size_t attr_len);
int verbs_query_port_compat(struct ibv_context *context, uint8_t port_num,
			    struct _compat_ibv_port_attr *attr);
int verbs_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

/* The largest IB MTU whose packets, with the headers of RoCEv2, fit into `interface_mtu` bytes. */
enum ibv_mtu query_active_mtu(uint32_t interface_mtu);

#endif
