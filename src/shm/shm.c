/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/shm.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "memory/memory.h"
#include "shm/answer.h"
#include "shm/doorbell.h"
#include "shm/nagle.h"
#include "shm/progress.h"
#include "shm/requester.h"
#include "shm/responder.h"
#include "shm/timer.h"
#include "shm/waiting.h"

void shm_init(const struct shm_env *env)
{
	shm_env = *env;
	memory_init(env->slot);
}

void shm_reset_after_fork(void)
{
	shm_timer_reset_after_fork();
	progress_reset_after_fork();
	nagle_reset_after_fork();
	doorbell_reset_after_fork();
	link_reset_after_fork();
}

static struct shm_qp *make(struct qp *qp)
{
	struct shm_qp *lq = calloc(1, sizeof(*lq));

	if (!lq)
		return NULL;
	lq->qp = qp;
	lq->epoch = shm_new_epoch();
	list_init(&lq->blocked_node);
	list_init(&lq->answering_node);
	list_init(&lq->held.node);
	list_init(&lq->timer_node);
	qp->path_data = lq;
	return lq;
}

static void drop_link(struct shm_qp *lq)
{
	struct link *link = lq->link;

	if (!link)
		return;
	shm_answer_leave(lq);
	lq->link = NULL;
	link_put(link);
}

static int connect(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp) ? shm_of(qp) : make(qp);
	bool asked;
	int error;

	if (!lq)
		return ENOMEM;
	if (qp->type == IBV_QPT_UD)
		return 0;
	if (!lq->orphan)
		lq->orphan = calloc(1, sizeof(*lq->orphan));
	if (!lq->orphan)
		return ENOMEM;
	error = shm_answer_make_room(lq);
	if (error)
		return error;
	drop_link(lq);
	/* A missing process is not an error here: as on a wire, requests will get no answer. */
	if (shm_env.peer_is_local(qp))
		lq->link = shm_env.find_link(qp->attr.dest_qp_num >> ARENA_QP_BITS, &asked);
	if (lq->link) /* maps it now, not while the program posts: memory/peer_arena.h */
		peer_arena_qp(&lq->link->arena, qp->attr.dest_qp_num);
	return 0;
}

static int set_depths(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);

	return lq ? shm_answer_make_room(lq) : 0;
}

static void issue(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);

	if (!lq)
		return;
	if (qp->type != IBV_QPT_UD || !nagle_waits(lq))
		shm_requester_issue(lq);
	CHECK(shm_sendq_check(lq));
}

static void quiesce(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);

	if (!lq)
		return;
	shm_timer_disarm(lq);
	shm_waiting_leave(lq);
	shm_responder_stop(lq);
	lq->epoch = shm_new_epoch();
	lq->attempt++;
	lq->unacked = lq->reads = lq->queued = 0;
	lq->failure.pending = lq->started = lq->sought = false;
	if (qp_state(qp) != IBV_QPS_ERR)
		drop_link(lq);
}

static void destroy(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);

	if (!lq)
		return;
	shm_timer_disarm(lq);
	shm_waiting_leave(lq);
	drop_link(lq);
	qp->path_data = NULL;
	free(lq->orphan);
	free(lq->responses);
	free(lq);
}

const struct qp_path shm_path = {
	.connect = connect,
	.set_depths = set_depths,
	.issue = issue,
	.quiesce = quiesce,
	.destroy = destroy,
};

/*
 * ------------------------------------------------------------------------------------------
 * RNICs.
 */

static struct shm_rnic_env rnic_env;

void shm_rnic_init(const struct shm_rnic_env *env)
{
	rnic_env = *env;
}

int shm_rnic_connect(struct qp *qp, bool gated)
{
	const struct qp_path *before = qp->path;
	int error;

	qp->path->destroy(qp);
	qp->path = &shm_rnic_path;
	qp->path_data = NULL;
	error = connect(qp);
	if (!error && !shm_of(qp)->link)
		error = ECONNREFUSED;
	if (error) {
		destroy(qp);
		qp->path = before;
	} else {
		shm_of(qp)->gated = gated;
	}
	return error;
}

bool shm_rnic_is_served(struct qp *qp, uint64_t cookie)
{
	struct shm_qp *lq = shm_of(qp);
	const struct arena_qp *target;
	uint32_t word;

	if (!lq || !lq->link || !lq->link->alive || lq->link->peer->cookie != cookie)
		return false;
	target = peer_arena_qp(&lq->link->arena, qp->attr.dest_qp_num);
	word = atomic_load_explicit(&target->word, memory_order_acquire); /* QPENTRY */
	return word == ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS) && target->dest_qpn == qp->ib.qp_num;
}

void shm_rnic_open(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);

	if (!lq || !lq->gated)
		return;
	lq->gated = false;
	issue(qp);
}

static int rnic_connect(struct qp *qp)
{
	return 0;
}

static void rnic_quiesce(struct qp *qp)
{
	quiesce(qp);
	rnic_env.on_quiesce(qp);
}

static void rnic_end(struct qp *qp)
{
	rnic_env.close(qp);
}

const struct qp_path shm_rnic_path = {
	.connect = rnic_connect,
	.issue = issue,
	.quiesce = rnic_quiesce,
	.destroy = destroy,
	.close = rnic_end,
};
