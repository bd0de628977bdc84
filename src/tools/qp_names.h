/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP names - names of types, states and paths of QPs.
 *
 * The functions return static text; "?" for an unknown number.
 */
#ifndef TOOLS_QP_NAMES_H
#define TOOLS_QP_NAMES_H

/* enum ibv_qp_type */
const char *qp_names_type(unsigned type);

/* enum ibv_qp_state */
const char *qp_names_state(unsigned state);

/* enum arena_path */
const char *qp_names_path(unsigned path);

#endif
