/*
 * The one private name of rdma-core that programs use (ibv_devinfo, pyverbs), which no header of
 * libibverbs-dev declares.
 */
#ifndef VERBS_PRIVATE_H
#define VERBS_PRIVATE_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "verbs/export.h"

enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2,
};

/* The type of GID `index` of a port. 0, or -1 and errno. */
VERBS_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
				    unsigned int index, enum ibv_gid_type_sysfs *type);

#endif
