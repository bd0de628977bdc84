/*
 * Verbs that rdma-core got after version 44 and Verbatim does not implement.
 *
 * Their callers take EOPNOTSUPP for "this device cannot". To implement one, remove its line here
 * and define it elsewhere under its plain name; the map has it already.
 */
#include "verbs/answer.h"

/* IBVERBS_1.15 */
ANSWER_NULL(ibv_alloc_dmah)
ANSWER_ERRNO(ibv_dealloc_dmah)
ANSWER_NULL(ibv_reg_mr_ex)

/* IBVERBS_1.16 */
ANSWER_MINUS_ONE(ibv_dm_export_dmabuf_fd)

/* IBVERBS_1.17 */
ANSWER_NULL(ibv_alloc_buf)
ANSWER_NOTHING(ibv_free_buf)
ANSWER_NULL(ibv_reg_buf_mr)

/* IBVERBS_1.18 */
ANSWER_ERRNO(_ibv_query_comp_cntr_caps)
ANSWER_NULL(ibv_create_comp_cntr)
ANSWER_ERRNO(ibv_destroy_comp_cntr)
ANSWER_MINUS_ONE(ibv_export_buf_dmabuf_fd)
ANSWER_ERRNO(ibv_inc_comp_cntr)
ANSWER_ERRNO(ibv_inc_err_comp_cntr)
ANSWER_ERRNO(ibv_qp_attach_comp_cntr)
ANSWER_ERRNO(ibv_read_comp_cntr)
ANSWER_ERRNO(ibv_read_err_comp_cntr)
ANSWER_ERRNO(ibv_set_comp_cntr)
ANSWER_ERRNO(ibv_set_err_comp_cntr)
