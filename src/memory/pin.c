/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/pin.h"

#include <errno.h>

#include "base/page.h"
#include "memory/maps.h"
#include "memory/oneself.h"

#define PROBES 256 /* pages a system call */

struct need {
	uintptr_t start, end; /* all before start is mapped */
	bool writable;
};

static bool visit_needed(const struct mapping *m, void *arg)
{
	struct need *need = arg;

	if (m->end <= need->start)
		return true;
	if (m->start > need->start || m->rights[0] != 'r' ||
	    (need->writable && m->rights[1] != 'w'))
		return false;
	need->start = m->end;
	return need->start < need->end;
}

/* Also true where /proc cannot be read. */
static bool is_mapped(uintptr_t start, uintptr_t end, bool writable)
{
	struct need need = { start, end, writable };

	return maps_visit(visit_needed, &need) || need.start >= end;
}

int pin_probe(uintptr_t start, uintptr_t end)
{
	size_t page = page_bytes();
	char bytes[PROBES];

	start &= ~(page - 1);
	while (start < end) {
		struct iovec remote[PROBES], local = { .iov_base = bytes };
		ssize_t got;
		unsigned n = 0;

		for (; n < PROBES && start < end; n++, start += page)
			remote[n] = (struct iovec){ (void *)start, 1 };
		local.iov_len = n;
		got = oneself_read(&local, 1, remote, n);
		if (got != (ssize_t)n)
			return got < 0 && errno != EFAULT ? -EPERM : -EFAULT;
	}
	return 0;
}

int pin_range(const void *addr, size_t length, bool writable)
{
	size_t page = page_bytes();
	uintptr_t start = (uintptr_t)addr & ~(page - 1);
	uintptr_t end;
	int saved = errno, ret;

	if (length == 0)
		return 0;
	if (__builtin_add_overflow((uintptr_t)addr, length, &end) || end > UINTPTR_MAX - page)
		return -EFAULT;
	end = (end + page - 1) & ~(page - 1);

	do
		ret = madvise((void *)start, end - start,
			      writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	while (ret < 0 && errno == EINTR);
	/*
	 * EINVAL: Linux before 5.14, or memory that cannot be populated but perhaps copied. Where
	 * the probe is refused (seccomp), the maps alone decide.
	 */
	if (ret < 0 && errno == EINVAL && is_mapped(start, end, writable) &&
	    pin_probe(start, end) != -EFAULT)
		ret = 0;
	errno = saved;
	return ret < 0 ? -EFAULT : 0;
}
