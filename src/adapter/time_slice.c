/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/time_slice.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the kernel's headers, which C libraries before glibc 2.41 clash with. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

#define SLICE_NS 100000ull /* the shortest there is */

void time_slice_shorten(void)
{
	struct scheduling own_scheduling = { .size = sizeof(own_scheduling) };

	if (syscall(SYS_sched_getattr, 0, &own_scheduling, sizeof(own_scheduling), 0) ||
	    own_scheduling.policy != SCHED_OTHER)
		return;
	own_scheduling.runtime = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &own_scheduling, 0);
}
