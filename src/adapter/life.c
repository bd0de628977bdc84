#include "adapter/life.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel adds futex_offset to the address of an entry, and finds the word there. */
static struct robust_list entry;
static struct robust_list_head head;

void life_begin(struct arena_header *own)
{
	entry.next = &head.list;
	head.list.next = &entry;
	head.futex_offset = (char *)&own->life - (char *)&entry;
	if (!syscall(SYS_set_robust_list, &head, sizeof(head)))
		atomic_store_explicit(&own->life, (uint32_t)gettid(), memory_order_release);
}

bool life_has_ended(const struct arena_header *header)
{
	return atomic_load_explicit(&header->life, memory_order_acquire) & FUTEX_OWNER_DIED;
}
