/*
 * Marshall - exported copies between the kernel's structs and those of verbs (librdmacm used them).
 *
 * Their header is not among those that Debian installs.
 */
#ifndef VERBS_MARSHALL_H
#define VERBS_MARSHALL_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>

struct ib_user_path_rec;
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

#endif
