/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/roce_env.h"

struct roce_env roce_env;
