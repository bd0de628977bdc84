#include "local/local.h"

#include <errno.h>
#include <stdlib.h>

#include "local/answer.h"
#include "object/memory.h"
#include "local/requester.h"
#include "local/responder.h"
#include "local/retry.h"

struct local_env local_env;
static _Atomic uint32_t epochs;

uint32_t local_new_epoch(void)
{
	return atomic_fetch_add_explicit(&epochs, 1, memory_order_relaxed) + 1;
}

void local_init(const struct local_env *env)
{
	local_env = *env;
	memory_init(env->slot);
}

void local_reset_after_fork(void)
{
	local_retry_reset_after_fork();
	link_reset_after_fork();
}

static struct local_qp *make(struct qp *qp)
{
	struct local_qp *lq = calloc(1, sizeof(*lq));

	if (!lq)
		return NULL;
	lq->qp = qp;
	lq->epoch = local_new_epoch();
	list_init(&lq->blocked_node);
	list_init(&lq->answering_node);
	list_init(&lq->timer_node);
	qp->path_data = lq;
	return lq;
}

static void drop_link(struct local_qp *lq)
{
	struct link *link = lq->link;

	if (!link)
		return;
	local_answer_leave(lq->qp);
	lq->link = NULL;
	link_put(link);
}

static int connect(struct qp *qp)
{
	struct local_qp *lq = local_of(qp) ? local_of(qp) : make(qp);
	bool asked;

	if (!lq)
		return ENOMEM;
	if (qp->type == IBV_QPT_UD)
		return 0;
	if (!lq->orphan)
		lq->orphan = calloc(1, sizeof(*lq->orphan));
	if (!lq->orphan)
		return ENOMEM;
	drop_link(lq);
	/* Nobody there is not an error of this call: as on a wire, it shows when work is not answered. */
	if (local_env.gid_is_local(&qp->attr.ah_attr.grh.dgid))
		lq->link = local_env.find_link(qp->attr.dest_qp_num >> ARENA_QP_BITS, &asked);
	return 0;
}

static void issue(struct qp *qp)
{
	if (local_of(qp))
		local_requester_issue(qp);
}

static void quiesce(struct qp *qp)
{
	struct local_qp *lq = local_of(qp);

	if (!lq)
		return;
	local_retry_stop(qp);
	local_requester_unblock(qp);
	local_responder_stop(qp);
	lq->epoch = local_new_epoch();
	lq->attempt++;
	lq->unacked = lq->reads = 0;
	lq->failed = lq->started = lq->sought = false;
	if (qp_state(qp) != IBV_QPS_ERR)
		drop_link(lq);
}

static void destroy(struct qp *qp)
{
	struct local_qp *lq = local_of(qp);

	if (!lq)
		return;
	local_retry_stop(qp);
	local_requester_unblock(qp);
	drop_link(lq);
	qp->path_data = NULL;
	free(lq->orphan);
	free(lq);
}

const struct qp_path local_path = {
	.connect = connect,
	.issue = issue,
	.quiesce = quiesce,
	.destroy = destroy,
};
