/*
 * Flows of RAW_PACKET QPs and their counters: ibv_create_flow(3), ibv_create_counters(3).
 */
#ifndef VERBS_FLOW_H
#define VERBS_FLOW_H

#include <infiniband/verbs.h>

/* Sets the ops of flows and counters. */
void flow_fill(struct verbs_context *verbs);

#endif
