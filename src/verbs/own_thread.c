/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/own_thread.h"

#include "memory/hold.h"
#include "verbs/export.h"

VERBS_EXPORT void verbatim_own_thread(void)
{
	hold_add_own_thread();
}
