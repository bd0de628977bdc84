/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp/readable.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"

/*
 * rt_sigprocmask copies the new mask before it refuses an unknown operation. It is the cheapest
 * call that reads a few bytes, and no sandbox forbids it.
 */
static bool page_is_readable(uintptr_t page)
{
	long rc = syscall(SYS_rt_sigprocmask, -1, page, NULL, sizeof(uint64_t));

	return rc == 0 || errno != EFAULT;
}

bool readable_check(struct readable *known, const struct iovec *piece)
{
	const uintptr_t bytes = page_bytes(), mask = ~(bytes - 1);
	uintptr_t from = (uintptr_t)piece->iov_base & mask;
	uintptr_t to = ((uintptr_t)piece->iov_base + piece->iov_len + bytes - 1) & mask;

	if (!piece->iov_len)
		return true;
	if (to <= from) /* wraps around */
		return false;
	for (uintptr_t page = from; page < to; page += bytes) {
		if (page >= known->from && page < known->to)
			continue;
		if (!page_is_readable(page))
			return false;
		if (page == known->to)
			known->to = page + bytes;
		else
			*known = (struct readable){ page, page + bytes };
	}
	return true;
}
