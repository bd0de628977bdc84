/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/liveness.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/uncancelled.h"

/*
 * The kernel adds futex_offset to the address of an entry, and finds the word there. The list is in
 * the arena, because the OOM reaper may take private memory from a process before it is dead.
 */
struct liveness_list {
	struct robust_list_head head;
	struct robust_list entry;
};

_Static_assert(sizeof(struct liveness_list) == sizeof(((struct arena_header *)0)->liveness_list),
	       "arena.h");

void liveness_begin(struct arena_header *own)
{
	struct liveness_list *list = (struct liveness_list *)own->liveness_list;

	list->entry.next = &list->head.list;
	list->head.list.next = &list->entry;
	list->head.futex_offset = (char *)&own->liveness - (char *)&list->entry;
	if (!syscall(SYS_set_robust_list, &list->head, sizeof(list->head)))
		atomic_store_explicit(&own->liveness, (uint32_t)gettid(), memory_order_release);
}

bool liveness_is_dead(const struct arena_header *header)
{
	return atomic_load_explicit(&header->liveness, memory_order_acquire) & FUTEX_OWNER_DIED;
}

bool liveness_is_alive(const struct arena_header *header)
{
	uint32_t word = atomic_load_explicit(&header->liveness, memory_order_acquire);

	return word && !(word & FUTEX_OWNER_DIED);
}

/*
 * A process keeps its PID until all its threads have ended, and then its pidfd becomes readable. If
 * another process has the PID by now, all threads of this one have ended, too.
 */
bool liveness_no_thread_left(pid_t pid)
{
	UNCANCELLED;
	struct pollfd gone = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int error = errno;
	bool none;

	if (gone.fd < 0)
		return error == ESRCH;
	none = poll(&gone, 1, 0) > 0;
	close(gone.fd);
	return none;
}
