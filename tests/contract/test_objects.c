/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects, their limits and their life: rules 1, 2, 3, 5, 7 and 9 of the contract. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "events.h"

#define EXPECT_BUSY(call)                                                                          \
	do {                                                                                       \
		int result_ = (call);                                                              \
		REQUIRE(result_ == EBUSY, #call " returned %d, expected EBUSY", result_);          \
	} while (0)
#define EXPECT_OK(call)                                                                            \
	do {                                                                                       \
		int result_ = (call);                                                              \
		REQUIRE(result_ == 0, #call " returned %d (%s)", result_, strerror(result_));      \
	} while (0)
#define EXPECT_NULL(call, code)                                                                    \
	do {                                                                                       \
		errno = 0;                                                                         \
		REQUIRE((call) == NULL, #call " succeeded");                                       \
		REQUIRE(errno == (code), #call ": errno %d (%s)", errno, strerror(errno));         \
	} while (0)

static struct side *open_side(void)
{
	return side_open(WITH(.channel = true, .size = 65536));
}

static void rule_01_pd_in_use_is_busy(struct pair *pair)
{
	struct side *side = open_side();
	struct ibv_pd *pd = ibv_alloc_pd(side->context);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_ah *ah;

	EXPECT_OK(ibv_query_gid(side->context, 1, 0, &to.grh.dgid));
	mr = ibv_reg_mr(pd, side->buf, 4096, 0);
	REQUIRE(mr, "ibv_reg_mr");
	EXPECT_BUSY(ibv_dealloc_pd(pd));
	EXPECT_OK(ibv_dereg_mr(mr));

	srq = ibv_create_srq(pd, &srq_init);
	REQUIRE(srq, "ibv_create_srq");
	EXPECT_BUSY(ibv_dealloc_pd(pd));
	EXPECT_OK(ibv_destroy_srq(srq));

	ah = ibv_create_ah(pd, &to);
	REQUIRE(ah, "ibv_create_ah: %s", strerror(errno));
	EXPECT_BUSY(ibv_dealloc_pd(pd));
	EXPECT_OK(ibv_destroy_ah(ah));

	side->srq = NULL;
	side->pd = pd;
	qp = side_create_qp(side, WITH());
	REQUIRE(qp, "ibv_create_qp");
	EXPECT_BUSY(ibv_dealloc_pd(pd));
	EXPECT_OK(ibv_destroy_qp(qp));

	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	if (mw) {
		EXPECT_BUSY(ibv_dealloc_pd(pd));
		EXPECT_OK(ibv_dealloc_mw(mw));
	}
	/* After these refusals it still works, and can be destroyed. */
	mr = ibv_reg_mr(pd, side->buf, 4096, 0);
	REQUIRE(mr, "ibv_reg_mr");
	EXPECT_OK(ibv_dereg_mr(mr));
	EXPECT_OK(ibv_dealloc_pd(pd));
}

static void rule_01_cq_and_srq_in_use_are_busy(struct pair *pair)
{
	struct side *side = side_open(WITH(.srq = true));
	struct ibv_qp *qp = side_create_qp(side, WITH());

	REQUIRE(qp, "ibv_create_qp");
	EXPECT_BUSY(ibv_destroy_cq(side->cq[SENDS]));
	EXPECT_BUSY(ibv_destroy_cq(side->cq[RECEIVES]));
	EXPECT_BUSY(ibv_destroy_srq(side->srq));
	EXPECT_OK(ibv_destroy_qp(qp));
	EXPECT_OK(ibv_destroy_cq(side->cq[SENDS]));
	EXPECT_OK(ibv_destroy_cq(side->cq[RECEIVES]));
	EXPECT_OK(ibv_destroy_srq(side->srq));
}

static void rule_01_channel_in_use_is_busy(struct pair *pair)
{
	struct side *side = open_side();

	EXPECT_BUSY(ibv_destroy_comp_channel(side->channel));
	EXPECT_OK(ibv_destroy_cq(side->cq[SENDS]));
	EXPECT_BUSY(ibv_destroy_comp_channel(side->channel));
	EXPECT_OK(ibv_destroy_cq(side->cq[RECEIVES]));
	EXPECT_OK(ibv_destroy_comp_channel(side->channel));
}

/* A QP with outstanding work is destroyed at once, with its requests. */
static void rule_01_qp_with_work_is_destroyed(struct pair *pair)
{
	struct op_destroy_qp op = { .qp = 0 };

	pair_connect(pair, WITH());
	for (uint64_t i = 0; i < 20; i++) {
		post_send(&pair->a, 0, SEND(.wr_id = i, .length = 4096));
		post_receive(&pair->a, 0, RECEIVE(.wr_id = i, .length = 64));
	}
	RUN(&pair->a, op_destroy_qp, &op);
	EXPECT_OK(op.result);
	RUN(&pair->b, op_destroy_qp, &op);
	EXPECT_OK(op.result);
	expect_none(&pair->a, SENDS);
	EXPECT_OK(ibv_dereg_mr(pair->a.side->mr));
	EXPECT_OK(ibv_destroy_cq(pair->a.side->cq[SENDS]));
	EXPECT_OK(ibv_destroy_cq(pair->a.side->cq[RECEIVES]));
	EXPECT_OK(ibv_dealloc_pd(pair->a.side->pd));
}

#define EXPECT_UNKNOWN(call)                                                                       \
	do {                                                                                       \
		int result_ = (call);                                                              \
		REQUIRE(result_ == ENOENT, #call " returned %d, expected ENOENT", result_);        \
	} while (0)

/* As the kernel does: finds an object by its handle, and only while it exists. */
static void rule_01_overwritten_handles_are_unknown(struct pair *pair)
{
	struct side *side = side_open(WITH(.channel = true, .srq = true));
	struct ibv_srq *srq = side->srq;
	struct ibv_qp *qp = side_create_qp(side, WITH());
	struct ibv_cq *cq = side->cq[SENDS];
	struct ibv_mw *mw = ibv_alloc_mw(side->pd, IBV_MW_TYPE_1);
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	REQUIRE(qp && srq && mw, "objects");
	qp->handle ^= 0x55;
	EXPECT_UNKNOWN(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	EXPECT_UNKNOWN(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	EXPECT_UNKNOWN(ibv_destroy_qp(qp));
	qp->handle ^= 0x55;
	EXPECT_OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	srq->handle ^= 0x55;
	EXPECT_UNKNOWN(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	EXPECT_UNKNOWN(ibv_query_srq(srq, &limit));
	EXPECT_UNKNOWN(ibv_destroy_srq(srq));
	srq->handle ^= 0x55;
	cq->handle ^= 0x55;
	EXPECT_UNKNOWN(ibv_resize_cq(cq, 8));
	EXPECT_UNKNOWN(ibv_destroy_cq(cq));
	cq->handle ^= 0x55;
	mw->handle ^= 0x55;
	EXPECT_UNKNOWN(ibv_dealloc_mw(mw));
	mw->handle ^= 0x55;
	side->mr->handle ^= 0x55;
	EXPECT_UNKNOWN(ibv_dereg_mr(side->mr));
	side->mr->handle ^= 0x55;
	side->pd->handle ^= 0x55;
	EXPECT_UNKNOWN(ibv_dealloc_pd(side->pd));
	side->pd->handle ^= 0x55;

	/* objects whose destruction failed still exist, and can be destroyed */
	EXPECT_BUSY(ibv_destroy_cq(cq));
	EXPECT_BUSY(ibv_destroy_srq(srq));
	EXPECT_OK(ibv_destroy_qp(qp));
	EXPECT_OK(ibv_destroy_srq(srq));
	EXPECT_OK(ibv_destroy_cq(cq));
	EXPECT_OK(ibv_dealloc_mw(mw));
	EXPECT_OK(ibv_dereg_mr(side->mr));
}

/*
 * The pointers dangle: verbs look them up, and do not follow them. (Verbs that are inline functions
 * of the header follow them in the program.)
 */
static void rule_01_destroyed_objects_are_unknown(struct pair *pair)
{
	struct side *side = side_open(WITH(.channel = true, .srq = true));
	struct ibv_qp *qp = side_create_qp(side, WITH());
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };
	struct ibv_ah *ah;

	EXPECT_OK(ibv_query_gid(side->context, 1, 0, &to.grh.dgid));
	ah = ibv_create_ah(side->pd, &to);
	REQUIRE(qp && ah, "objects");
	EXPECT_OK(ibv_destroy_ah(ah));
	EXPECT_UNKNOWN(ibv_destroy_ah(ah));
	EXPECT_OK(ibv_destroy_qp(qp));
	EXPECT_UNKNOWN(ibv_destroy_qp(qp));
	EXPECT_OK(ibv_destroy_srq(side->srq));
	EXPECT_UNKNOWN(ibv_destroy_srq(side->srq));
	for (int i = 0; i < WHICH; i++) {
		EXPECT_OK(ibv_destroy_cq(side->cq[i]));
		EXPECT_UNKNOWN(ibv_destroy_cq(side->cq[i]));
	}
	EXPECT_OK(ibv_destroy_comp_channel(side->channel));
	EXPECT_UNKNOWN(ibv_destroy_comp_channel(side->channel));
	EXPECT_OK(ibv_dereg_mr(side->mr));
	EXPECT_UNKNOWN(ibv_dereg_mr(side->mr));
	EXPECT_OK(ibv_dealloc_pd(side->other_pd));
	EXPECT_UNKNOWN(ibv_dealloc_pd(side->other_pd));
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	REQUIRE(dir, "/proc/self/fd");
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void one_life(void)
{
	struct side *side = open_side();
	struct ibv_qp *qp = side_create_qp(side, WITH());

	EXPECT_OK(ibv_destroy_qp(qp));
	EXPECT_OK(ibv_dereg_mr(side->mr));
	EXPECT_OK(ibv_destroy_cq(side->cq[SENDS]));
	EXPECT_OK(ibv_destroy_cq(side->cq[RECEIVES]));
	EXPECT_OK(ibv_destroy_comp_channel(side->channel));
	EXPECT_OK(ibv_dealloc_pd(side->pd));
	EXPECT_OK(ibv_dealloc_pd(side->other_pd));
	EXPECT_OK(ibv_close_device(side->context));
}

/* The first use makes descriptors that stay; after that, objects leave none. */
static void rule_01_no_descriptor_is_left(struct pair *pair)
{
	int before;

	one_life();
	before = open_descriptors();
	for (int i = 0; i < 20; i++)
		one_life();
	REQUIRE(open_descriptors() <= before, "%d descriptors, before it were %d",
		open_descriptors(), before);
}

static void rule_02_qp_over_the_limits(struct pair *pair)
{
	struct side *side = open_side();
	struct ibv_device_attr limits;
	struct ibv_qp *qp;

	EXPECT_OK(ibv_query_device(side->context, &limits));
	EXPECT_NULL(side_create_qp(side, WITH(.cap.max_send_wr = (uint32_t)limits.max_qp_wr + 1)),
		    EINVAL);
	EXPECT_NULL(side_create_qp(side, WITH(.cap.max_recv_wr = (uint32_t)limits.max_qp_wr + 1)),
		    EINVAL);
	EXPECT_NULL(side_create_qp(side, WITH(.cap.max_send_sge = (uint32_t)limits.max_sge + 1)),
		    EINVAL);
	EXPECT_NULL(side_create_qp(side, WITH(.cap.max_recv_sge = (uint32_t)limits.max_sge + 1)),
		    EINVAL);
	EXPECT_NULL(side_create_qp(side, WITH(.cap.max_inline_data = 1 << 24)), EINVAL);
	/* Old kernels say EINVAL, newer ones EOPNOTSUPP. */
	REQUIRE(!side_create_qp(side, WITH(.type = (enum ibv_qp_type)99)), "a QP of type 99");
	REQUIRE(errno == EINVAL || errno == EOPNOTSUPP, "errno %d", errno);

	qp = side_create_qp(side, WITH(.cap = { .max_send_wr = (uint32_t)limits.max_qp_wr,
						.max_recv_wr = (uint32_t)limits.max_qp_wr,
						.max_send_sge = 1,
						.max_recv_sge = 1 }));
	REQUIRE(qp, "max_qp_wr is not granted: %s", strerror(errno));
	EXPECT_OK(ibv_destroy_qp(qp));
	qp = side_create_qp(side, WITH(.cap = { .max_send_wr = 1,
						.max_recv_wr = 1,
						.max_send_sge = (uint32_t)limits.max_sge,
						.max_recv_sge = (uint32_t)limits.max_sge }));
	REQUIRE(qp, "max_sge is not granted: %s", strerror(errno));
	EXPECT_OK(ibv_destroy_qp(qp));
}

static void rule_02_granted_is_written_back(struct pair *pair)
{
	struct side *side = open_side();
	struct ibv_qp_init_attr init = { .send_cq = side->cq[SENDS],
					 .recv_cq = side->cq[RECEIVES],
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 3,
						  .max_recv_wr = 5,
						  .max_send_sge = 2,
						  .max_recv_sge = 1,
						  .max_inline_data = 17 } };
	struct ibv_qp_init_attr queried;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp = ibv_create_qp(side->pd, &init);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 5, .max_sge = 2 } };
	struct ibv_srq_attr srq_attr;
	struct ibv_srq *srq = ibv_create_srq(side->pd, &srq_init);
	struct ibv_cq *cq = ibv_create_cq(side->context, 5, NULL, NULL, 0);

	REQUIRE(qp && srq && cq, "creating failed");
	REQUIRE(init.cap.max_send_wr >= 3 && init.cap.max_recv_wr >= 5 &&
			init.cap.max_send_sge >= 2 && init.cap.max_recv_sge >= 1 &&
			init.cap.max_inline_data >= 17,
		"granted less than was asked for");
	EXPECT_OK(ibv_query_qp(qp, &attr, IBV_QP_CAP, &queried));
	REQUIRE(memcmp(&queried.cap, &init.cap, sizeof(init.cap)) == 0 &&
			memcmp(&attr.cap, &init.cap, sizeof(init.cap)) == 0,
		"ibv_query_qp tells other capabilities");
	REQUIRE(srq_init.attr.max_wr >= 5 && srq_init.attr.max_sge >= 2, "SRQ: granted less");
	EXPECT_OK(ibv_query_srq(srq, &srq_attr));
	REQUIRE(srq_attr.max_wr == srq_init.attr.max_wr && srq_attr.srq_limit == 0,
		"ibv_query_srq tells something else");
	REQUIRE(cq->cqe >= 5, "cqe %d", cq->cqe);
	REQUIRE(qp->qp_type == IBV_QPT_RC && qp->state == IBV_QPS_RESET && qp->pd == side->pd &&
			qp->send_cq == side->cq[SENDS] && qp->recv_cq == side->cq[RECEIVES],
		"members of ibv_qp");
}

static void rule_02_srq_over_the_limits(struct pair *pair)
{
	struct side *side = open_side();
	struct ibv_device_attr limits;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	EXPECT_OK(ibv_query_device(side->context, &limits));
	init.attr.max_wr = (uint32_t)limits.max_srq_wr + 1;
	EXPECT_NULL(ibv_create_srq(side->pd, &init), EINVAL);
	init.attr =
		(struct ibv_srq_attr){ .max_wr = 1, .max_sge = (uint32_t)limits.max_srq_sge + 1 };
	EXPECT_NULL(ibv_create_srq(side->pd, &init), EINVAL);
	init.attr = (struct ibv_srq_attr){ .max_wr = (uint32_t)limits.max_srq_wr, .max_sge = 1 };
	REQUIRE(ibv_create_srq(side->pd, &init), "max_srq_wr is not granted");
}

/* As many can be made as the device reports, and not one more. */
struct maker {
	const char *what;
	void *(*make)(struct side *side);
	int (*destroy)(void *object);
};

static void *make_pd(struct side *side)
{
	return ibv_alloc_pd(side->context);
}

static int destroy_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *make_cq(struct side *side)
{
	return ibv_create_cq(side->context, 1, NULL, NULL, 0);
}

static int destroy_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *make_qp(struct side *side)
{
	return side_create_qp(side, WITH(.cap = { .max_send_wr = 1,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 }));
}

static int destroy_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static void *make_srq(struct side *side)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(side->pd, &init);
}

static int destroy_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *make_mr(struct side *side)
{
	return ibv_reg_mr(side->pd, side->buf, 64, IBV_ACCESS_LOCAL_WRITE);
}

static int destroy_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void reach_limit(struct side *side, const struct maker *maker, int limit, int existing)
{
	void **objects;
	int count = 0;

	REQUIRE(limit > existing, "%s: the limit is %d", maker->what, limit);
	if (limit > 70000) {
		fprintf(stderr, "note: the limit of %d %ss is too high to be reached here\n", limit,
			maker->what);
		return;
	}
	objects = calloc((size_t)limit + 1, sizeof(*objects));
	while (count <= limit && (objects[count] = maker->make(side)))
		count++;
	REQUIRE(count == limit - existing, "%d %ss could be made; the limit is %d with %d before",
		count, maker->what, limit, existing);
	/* Destroying one makes room for one. */
	EXPECT_OK(maker->destroy(objects[count - 1]));
	objects[count - 1] = maker->make(side);
	REQUIRE(objects[count - 1], "%s: no room after one was destroyed", maker->what);
	for (int i = 0; i < count; i++)
		EXPECT_OK(maker->destroy(objects[i]));
	free(objects);
}

static void rule_02_limits_can_be_reached(struct pair *pair)
{
	struct side *side = open_side();
	struct ibv_device_attr limits;

	EXPECT_OK(ibv_query_device(side->context, &limits));
	reach_limit(side, &(struct maker){ "PD", make_pd, destroy_pd }, limits.max_pd, 2);
	reach_limit(side, &(struct maker){ "CQ", make_cq, destroy_cq }, limits.max_cq, 2);
	reach_limit(side, &(struct maker){ "MR", make_mr, destroy_mr }, limits.max_mr, 1);
	reach_limit(side, &(struct maker){ "SRQ", make_srq, destroy_srq }, limits.max_srq, 0);
	reach_limit(side, &(struct maker){ "QP", make_qp, destroy_qp }, limits.max_qp, 0);
}

static void rule_03_cq_sizes(struct pair *pair)
{
	struct side *side = open_side();
	struct ibv_device_attr limits;
	struct ibv_cq *cq;

	EXPECT_OK(ibv_query_device(side->context, &limits));
	EXPECT_NULL(ibv_create_cq(side->context, 0, NULL, NULL, 0), EINVAL);
	EXPECT_NULL(ibv_create_cq(side->context, -1, NULL, NULL, 0), EINVAL);
	EXPECT_NULL(ibv_create_cq(side->context, limits.max_cqe + 1, NULL, NULL, 0), EINVAL);
	EXPECT_NULL(ibv_create_cq(side->context, 1, NULL, NULL, side->context->num_comp_vectors),
		    EINVAL);
	EXPECT_NULL(ibv_create_cq(side->context, 1, NULL, NULL, -1), EINVAL);
	cq = ibv_create_cq(side->context, limits.max_cqe, NULL, NULL, 0);
	REQUIRE(cq && cq->cqe == limits.max_cqe, "max_cqe is not granted");
	EXPECT_OK(ibv_destroy_cq(cq));
	for (int i = 0; i < side->context->num_comp_vectors; i++) {
		cq = ibv_create_cq(side->context, 1, NULL, NULL, i);
		REQUIRE(cq, "comp_vector %d is refused", i);
		EXPECT_OK(ibv_destroy_cq(cq));
	}
}

static void rule_03_resize_keeps_completions(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_cq *cq;
	int result;

	pair_connect(pair, WITH(.cqe = 64, .channel = true));
	cq = a->side->cq[SENDS];
	for (uint64_t i = 0; i < 20; i++) {
		arm(pair, SENDS, false);
		post_send(a, 0, WRITE(b, 0, .wr_id = i, .length = 8));
		expect_event(pair, SENDS); /* the completion is in the CQ */
	}
	expect(a, SENDS, 0, IBV_WC_SUCCESS);
	for (int i = 0; i < 100; i++)
		REQUIRE(ibv_poll_cq(cq, 0, NULL) == 0, "ibv_poll_cq of no entries");
	result = ibv_resize_cq(cq, 200);
	if (result == EOPNOTSUPP || result == ENOSYS)
		skip_because("ibv_resize_cq: %s", strerror(result));
	EXPECT_OK(result);
	REQUIRE(cq->cqe >= 200, "cqe is %d", cq->cqe);
	result = ibv_resize_cq(cq, 4);
	REQUIRE(result == EINVAL, "19 completions in a CQ of 4: result %d", result);
	EXPECT_OK(ibv_resize_cq(cq, 19));
	REQUIRE(ibv_resize_cq(cq, 0) == EINVAL, "a CQ of 0");
	for (uint64_t i = 1; i < 20; i++)
		expect(a, SENDS, i, IBV_WC_SUCCESS);
	expect_none(a, SENDS);
	EXPECT_OK(ibv_resize_cq(cq, 4));
	post_send(a, 0, WRITE(b, 0, .wr_id = 30, .length = 8));
	expect(a, SENDS, 30, IBV_WC_SUCCESS);
}

static void rule_05_device_outlives_its_list(struct pair *pair)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_device *device;
	struct ibv_context *context;
	char name[128];

	REQUIRE(list && count > 0, "no device");
	REQUIRE(list[count] == NULL, "the list has no end");
	device = list[0];
	snprintf(name, sizeof(name), "%s", ibv_get_device_name(device));
	context = ibv_open_device(device);
	REQUIRE(context, "ibv_open_device: %s", strerror(errno));
	REQUIRE(context->device == device, "context->device is another pointer");
	ibv_free_device_list(list);
	REQUIRE(context->device == device && strcmp(device->name, name) == 0, "the device is gone");
	REQUIRE(ibv_get_device_guid(context->device) != 0, "no GUID");
	list = ibv_get_device_list(NULL);
	REQUIRE(list && strcmp(list[0]->name, name) == 0, "the list changed");
	ibv_free_device_list(list);
	EXPECT_OK(ibv_close_device(context));
}

/* A program that closes a device first: its CQ can still be destroyed. */
static void rule_01_cq_outlives_its_device(struct pair *pair)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_cq *cq;

	REQUIRE(list && list[0], "no device");
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	REQUIRE(context, "ibv_open_device: %s", strerror(errno));
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	REQUIRE(cq, "ibv_create_cq: %s", strerror(errno));
	EXPECT_OK(ibv_close_device(context));
	EXPECT_OK(ibv_destroy_cq(cq));
}

static int compare_keys(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

/* Adding a constant to one key does not give the next. */
static void rule_07_keys_are_not_guessable(struct pair *pair)
{
	enum { COUNT = 256 };
	struct side *side = open_side();
	uint32_t keys[COUNT], steps[COUNT - 1], commonest = 0;

	for (int i = 0; i < COUNT; i++) {
		struct ibv_mr *mr = ibv_reg_mr(side->pd, side->buf, 64, IBV_ACCESS_REMOTE_READ);

		REQUIRE(mr, "ibv_reg_mr");
		keys[i] = mr->rkey;
		if (i > 0)
			steps[i - 1] = keys[i] - keys[i - 1];
	}
	qsort(steps, COUNT - 1, sizeof(steps[0]), compare_keys);
	for (uint32_t i = 0, run = 0; i < COUNT - 1; i++) {
		run = i > 0 && steps[i] == steps[i - 1] ? run + 1 : 1;
		if (run > commonest)
			commonest = run;
	}
	REQUIRE(commonest <= 16, "%u of %d keys are the one before plus the same", commonest,
		COUNT - 1);
	qsort(keys, COUNT, sizeof(keys[0]), compare_keys);
	for (int i = 1; i < COUNT; i++)
		REQUIRE(keys[i] != keys[i - 1], "two regions have the same key");
}

static void rule_07_freed_key_does_not_come_back(struct pair *pair)
{
	enum { COUNT = 200 };
	struct side *side = open_side();
	uint32_t keys[COUNT];

	for (int i = 0; i < COUNT; i++) {
		struct ibv_mr *mr = ibv_reg_mr(side->pd, side->buf, 64, IBV_ACCESS_REMOTE_READ);

		REQUIRE(mr, "ibv_reg_mr");
		keys[i] = mr->rkey;
		EXPECT_OK(ibv_dereg_mr(mr));
	}
	qsort(keys, COUNT, sizeof(keys[0]), compare_keys);
	for (int i = 1; i < COUNT; i++)
		REQUIRE(keys[i] != keys[i - 1], "a freed key was given again");
}

/*
 * Objects that a connection uses cannot be destroyed, and the attempt does not affect the
 * connection.
 */
static void op_destroy_what_is_used(struct side *side, void *argument)
{
	REQUIRE(ibv_dealloc_pd(side->pd) == EBUSY, "the PD of a QP");
	REQUIRE(ibv_destroy_cq(side->cq[SENDS]) == EBUSY, "a QP's send CQ");
	REQUIRE(ibv_destroy_cq(side->cq[RECEIVES]) == EBUSY, "a QP's receive CQ");
	REQUIRE(ibv_destroy_srq(side->srq) == EBUSY, "a QP's SRQ");
	REQUIRE(ibv_destroy_comp_channel(side->channel) == EBUSY, "the channel of CQs");
}

static void rule_01_connected_objects_are_busy(struct pair *pair)
{
	char nothing = 0;

	pair_connect(pair, WITH(.srq = true, .channel = true));
	RUN(&pair->a, op_destroy_what_is_used, &nothing);
	RUN(&pair->b, op_destroy_what_is_used, &nothing);
	for (int i = 0; i < 2; i++) {
		struct end *from = i ? &pair->b : &pair->a, *to = i ? &pair->a : &pair->b;

		post_receive(to, -1, RECEIVE(.wr_id = 2, .length = 64));
		post_send(from, 0, SEND(.wr_id = 1, .length = 64));
		expect(from, SENDS, 1, IBV_WC_SUCCESS);
		expect(to, RECEIVES, 2, IBV_WC_SUCCESS);
	}
}

/* Queues of the device's maximum depth hold that many, and not one more. */
static void op_fill_receive_queue(struct side *side, void *argument)
{
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_device_attr device;
	int posted = 0;

	REQUIRE(ibv_query_device(side->context, &device) == 0, "ibv_query_device");
	while (ibv_post_recv(side->qp[0], &wr, &bad) == 0)
		posted++;
	REQUIRE(posted == device.max_qp_wr, "%d receives, max_qp_wr is %d", posted,
		device.max_qp_wr);
}

static void rule_02_deepest_queues_with_a_peer(struct pair *pair)
{
	struct ibv_qp_cap cap = WITH()->cap;
	struct ibv_device_attr device;
	char nothing = 0;

	REQUIRE(ibv_query_device(side_open_device(), &device) == 0, "ibv_query_device");
	cap.max_send_wr = cap.max_recv_wr = (uint32_t)device.max_qp_wr;
	pair_connect(pair, WITH(.cap = cap));
	RUN(&pair->b, op_fill_receive_queue, &nothing);
	for (uint64_t i = 0; i < 64; i++) {
		post_send(&pair->a, 0, SEND(.wr_id = i));
		expect(&pair->a, SENDS, i, IBV_WC_SUCCESS);
		expect(&pair->b, RECEIVES, 0, IBV_WC_SUCCESS);
	}
}

/* side_open_device has freed the list by then. */
static void op_check_device(struct side *side, void *argument)
{
	struct ibv_device_attr device;

	REQUIRE(side->context->device && ibv_get_device_name(side->context->device)[0], "its name");
	REQUIRE(ibv_query_device(side->context, &device) == 0 &&
			device.node_guid == ibv_get_device_guid(side->context->device),
		"its GUID");
}

static void rule_05_device_of_both_ends(struct pair *pair)
{
	char nothing = 0;

	pair_connect(pair, WITH());
	RUN(&pair->a, op_check_device, &nothing);
	RUN(&pair->b, op_check_device, &nothing);
	expect_working(pair, 0);
}

/* The peer that kept a key cannot use it, though the same memory has a new one. */
static void rule_07_freed_key_is_dead_for_the_peer(struct pair *pair)
{
	struct op_region old, new;

	pair_connect(pair, WITH(.qps = 2));
	old = add_region(&pair->b,
			 (struct op_region){ .slot = 0, .length = 4096, .access = ACCESS_ALL });
	post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = 1, .length = 64, .rkey = old.rkey));
	expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
	drop_region(&pair->b, 0);
	new = add_region(&pair->b,
			 (struct op_region){ .slot = 0, .length = 4096, .access = ACCESS_ALL });
	REQUIRE(new.rkey != old.rkey, "the key was given again at once");
	post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = 2, .length = 64, .rkey = old.rkey));
	expect(&pair->a, SENDS, 2, IBV_WC_REM_ACCESS_ERR);
	post_send(&pair->a, 1, WRITE(&pair->b, 0, .wr_id = 3, .length = 64, .rkey = new.rkey));
	expect(&pair->a, SENDS, 3, IBV_WC_SUCCESS);
}

static const struct test tests[] = {
	PAIR(rule_01_connected_objects_are_busy),
	PAIR(rule_02_deepest_queues_with_a_peer),
	PAIR(rule_05_device_of_both_ends),
	PAIR(rule_07_freed_key_is_dead_for_the_peer),
	HERE(rule_01_pd_in_use_is_busy),
	HERE(rule_01_cq_and_srq_in_use_are_busy),
	HERE(rule_01_channel_in_use_is_busy),
	PAIR(rule_01_qp_with_work_is_destroyed),
	HERE(rule_01_overwritten_handles_are_unknown),
	HERE(rule_01_destroyed_objects_are_unknown),
	HERE(rule_01_no_descriptor_is_left),
	HERE(rule_02_qp_over_the_limits),
	HERE(rule_02_granted_is_written_back),
	HERE(rule_02_srq_over_the_limits),
	HERE_WITHIN(60, rule_02_limits_can_be_reached),
	HERE(rule_03_cq_sizes),
	PAIR(rule_03_resize_keeps_completions),
	HERE(rule_05_device_outlives_its_list),
	HERE(rule_01_cq_outlives_its_device),
	HERE(rule_07_keys_are_not_guessable),
	HERE(rule_07_freed_key_does_not_come_back),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
