/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD path - the path of a UD QP all of whose datagrams go over the network.
 */
#ifndef TESTS_SIM_UD_PATH_H
#define TESTS_SIM_UD_PATH_H

#include "object/qp.h"

extern const struct qp_path ud_path;

#endif
