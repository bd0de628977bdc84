/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Undeclared - exported names that no header of rdma-core declares.
 */
#ifndef VERBS_UNDECLARED_H
#define VERBS_UNDECLARED_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <stddef.h>

struct ib_user_path_rec;
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;

/* Support of fork (fork.c) */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* Files of sysfs (sysfs.c) */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Copies between the kernel's structs and those of verbs (marshall.c) */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

/* The type of a GID (gid.c), for ibv_devinfo and pyverbs. 0, or -1 and errno. */
enum gid_type_sysfs {
	GID_TYPE_SYSFS_IB_ROCE_V1,
	GID_TYPE_SYSFS_ROCE_V2,
};

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       int *type);

#endif
