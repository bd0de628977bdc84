#include "verbs/unsupported.h"

#include "verbs/refuse.h"

static int no(const char *verb)
{
	return refuse(EOPNOTSUPP, CAUSE_UNSUPPORTED, "%s", verb);
}

static void *none(const char *verb)
{
	no(verb);
	return NULL;
}

/* Flow steering */

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	return none("ibv_create_flow");
}

static int destroy_flow(struct ibv_flow *flow)
{
	return no("ibv_destroy_flow");
}

static struct ibv_flow_action *create_flow_action_esp(struct ibv_context *context,
						      struct ibv_flow_action_esp_attr *attr)
{
	return none("ibv_create_flow_action_esp");
}

static int modify_flow_action_esp(struct ibv_flow_action *action,
				  struct ibv_flow_action_esp_attr *attr)
{
	return no("ibv_modify_flow_action_esp");
}

static int destroy_flow_action(struct ibv_flow_action *action)
{
	return no("ibv_destroy_flow_action");
}

/* Counters of flows */

static struct ibv_counters *create_counters(struct ibv_context *context,
					    struct ibv_counters_init_attr *attr)
{
	return none("ibv_create_counters");
}

static int destroy_counters(struct ibv_counters *counters)
{
	return no("ibv_destroy_counters");
}

static int attach_counters_point_flow(struct ibv_counters *counters,
				      struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	return no("ibv_attach_counters_point_flow");
}

static int read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t count,
			 uint32_t flags)
{
	return no("ibv_read_counters");
}

/* Raw receive queues */

static struct ibv_wq *create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	return none("ibv_create_wq");
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	return no("ibv_modify_wq");
}

static int destroy_wq(struct ibv_wq *wq)
{
	return no("ibv_destroy_wq");
}

static struct ibv_rwq_ind_table *create_rwq_ind_table(struct ibv_context *context,
						      struct ibv_rwq_ind_table_init_attr *attr)
{
	return none("ibv_create_rwq_ind_table");
}

static int destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	return no("ibv_destroy_rwq_ind_table");
}

void unsupported_fill(struct verbs_context *verbs)
{
	verbs->ibv_create_flow = create_flow;
	verbs->ibv_destroy_flow = destroy_flow;
	/* Very old programs find these two where others look for the placeholders. */
	verbs->ABI_placeholder1 = (void (*)(void))create_flow;
	verbs->ABI_placeholder2 = (void (*)(void))destroy_flow;
	verbs->create_flow_action_esp = create_flow_action_esp;
	verbs->modify_flow_action_esp = modify_flow_action_esp;
	verbs->destroy_flow_action = destroy_flow_action;
	verbs->create_counters = create_counters;
	verbs->destroy_counters = destroy_counters;
	verbs->attach_counters_point_flow = attach_counters_point_flow;
	verbs->read_counters = read_counters;
	verbs->create_wq = create_wq;
	verbs->modify_wq = modify_wq;
	verbs->destroy_wq = destroy_wq;
	verbs->create_rwq_ind_table = create_rwq_ind_table;
	verbs->destroy_rwq_ind_table = destroy_rwq_ind_table;
}
