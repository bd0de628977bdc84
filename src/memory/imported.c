/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/imported.h"

const struct imported_ops *imported_ops;
