/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between the kernel's structs and those of verbs. Old librdmacm versions used these
 * functions.
 *
 * A table for each pair of structs lists the common fields. Their byte order is the same. Their
 * size is the same, or one byte on one side and four on the other.
 */
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "verbs/export.h"
#include "verbs/undeclared.h"

struct part {
	uint16_t offset;
	uint16_t size;
};

struct field {
	struct part verbs;
	struct part kernel;
};

/* clang-format off */
#define PART(type, name) { offsetof(struct type, name), sizeof(((struct type *)NULL)->name) }

#define AH(name) { PART(ibv_ah_attr, name), PART(ib_uverbs_ah_attr, name) }

static const struct field ah_fields[] = {
	AH(grh.dgid), AH(grh.flow_label), AH(grh.sgid_index), AH(grh.hop_limit),
	AH(grh.traffic_class), AH(dlid), AH(sl), AH(src_path_bits), AH(static_rate),
	AH(is_global), AH(port_num),
};

#define QP(name) { PART(ibv_qp_attr, name), PART(ib_uverbs_qp_attr, name) }
#define CAP(name) { PART(ibv_qp_attr, cap.name), PART(ib_uverbs_qp_attr, name) }

static const struct field qp_fields[] = {
	QP(cur_qp_state), QP(path_mtu), QP(path_mig_state), QP(qkey), QP(rq_psn), QP(sq_psn),
	QP(dest_qp_num), QP(qp_access_flags), CAP(max_send_wr), CAP(max_recv_wr),
	CAP(max_send_sge), CAP(max_recv_sge), CAP(max_inline_data), QP(pkey_index),
	QP(alt_pkey_index), QP(en_sqd_async_notify), QP(sq_draining), QP(max_rd_atomic),
	QP(max_dest_rd_atomic), QP(min_rnr_timer), QP(port_num), QP(timeout), QP(retry_cnt),
	QP(rnr_retry), QP(alt_port_num), QP(alt_timeout),
};

#define PATH(name) { PART(ibv_sa_path_rec, name), PART(ib_user_path_rec, name) }

static const struct field path_fields[] = {
	PATH(dgid), PATH(sgid), PATH(dlid), PATH(slid), PATH(raw_traffic), PATH(flow_label),
	PATH(hop_limit), PATH(traffic_class), PATH(reversible), PATH(numb_path), PATH(pkey),
	PATH(sl), PATH(mtu_selector), PATH(mtu), PATH(rate_selector), PATH(rate),
	PATH(packet_life_time), PATH(preference), PATH(packet_life_time_selector),
};

/* clang-format on */

static void copy_part(void *dst, struct part to, const void *src, struct part from)
{
	uint8_t *out = (uint8_t *)dst + to.offset;
	const uint8_t *in = (const uint8_t *)src + from.offset;
	uint32_t value = *in;

	if (to.size == from.size) {
		memcpy(out, in, to.size);
	} else if (to.size > from.size) {
		memcpy(out, &value, sizeof(value));
	} else {
		memcpy(&value, in, sizeof(value));
		*out = (uint8_t)value;
	}
}

static void from_kernel(void *dst, const void *src, const struct field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		copy_part(dst, fields[i].verbs, src, fields[i].kernel);
}

static void to_kernel(void *dst, const void *src, const struct field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		copy_part(dst, fields[i].kernel, src, fields[i].verbs);
}

#define TABLE(fields) (fields), sizeof(fields) / sizeof((fields)[0])

VERBS_EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src)
{
	from_kernel(dst, src, TABLE(ah_fields));
}

VERBS_EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src)
{
	from_kernel(dst, src, TABLE(qp_fields));
	ibv_copy_ah_attr_from_kern(&dst->ah_attr, &src->ah_attr);
	ibv_copy_ah_attr_from_kern(&dst->alt_ah_attr, &src->alt_ah_attr);
}

VERBS_EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst,
					      struct ib_user_path_rec *src)
{
	from_kernel(dst, src, TABLE(path_fields));
}

VERBS_EXPORT void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst,
					    struct ibv_sa_path_rec *src)
{
	to_kernel(dst, src, TABLE(path_fields));
}
