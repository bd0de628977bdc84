/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP states - the moves of a queue pair that are legal, and what each must and may set.
 *
 * The table of IBA 11.2.5.2 ("Modify Queue Pair", tables 91 to 93), for RC, UC and UD, as adapters
 * on Linux take it: RESET to ERR is no move, and moves to RESET and ERR set nothing.
 */
#ifndef OBJECT_QP_STATES_H
#define OBJECT_QP_STATES_H

#include <infiniband/verbs.h>

enum move_verdict {
	MOVE_OK = 0,
	MOVE_ILLEGAL,  /* there is no way from one state to the other */
	MOVE_LACKS,    /* a required attribute is not in the mask */
	MOVE_EXCEEDS,  /* the mask has an attribute that this move cannot set */
};

/*
 * Checks ibv_modify_qp's mask (enum ibv_qp_attr_mask) for a move of a QP of this type. `*which` is
 * set with LACKS and EXCEEDS: the attributes that are missing, or too many.
 */
enum move_verdict qp_move_check(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type,
				int mask, int *which);

const char *qp_state_name(enum ibv_qp_state state);

#endif
