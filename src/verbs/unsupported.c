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

/* Encryption of flows */

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
	verbs->create_flow_action_esp = create_flow_action_esp;
	verbs->modify_flow_action_esp = modify_flow_action_esp;
	verbs->destroy_flow_action = destroy_flow_action;
	verbs->create_wq = create_wq;
	verbs->modify_wq = modify_wq;
	verbs->destroy_wq = destroy_wq;
	verbs->create_rwq_ind_table = create_rwq_ind_table;
	verbs->destroy_rwq_ind_table = destroy_rwq_ind_table;
}
