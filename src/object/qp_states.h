/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP states - the legal state transitions of a QP, with the required and optional attributes of
 * each.
 *
 * The table of IBA 11.2.5.2 ("Modify Queue Pair", tables 91 to 93) for RC, UC and UD, as Linux has
 * it: RESET to ERR is illegal, and transitions to RESET and ERR set no attribute. Of iWARP: what
 * the kernel's iwcm asks siw for. Pure.
 */
#ifndef OBJECT_QP_STATES_H
#define OBJECT_QP_STATES_H

#include <infiniband/verbs.h>

enum move_verdict {
	MOVE_OK = 0,
	MOVE_ILLEGAL, /* there is no such transition */
	MOVE_LACKS,   /* the mask lacks a required attribute */
	MOVE_EXCEEDS, /* the mask has an attribute that the transition cannot set */
};

/*
 * ibv_modify_qp's mask without the attributes that do nothing at this end. Programs set all of RC's
 * at both ends of XRC; the kernel ignores those that only the other end needs.
 */
int qp_move_mask(unsigned type, int mask);
/*
 * Checks the mask (enum ibv_qp_attr_mask) for a transition of a QP of this type (enum
 * ibv_qp_type, or OPCODE_QPT_RNIC).
 * MOVE_LACKS and MOVE_EXCEEDS write to *which the attributes that are missing, or too many.
 */
enum move_verdict qp_move_check(enum ibv_qp_state from, enum ibv_qp_state to, unsigned type,
				int mask, int *which);

const char *qp_state_name(enum ibv_qp_state state);

#endif
