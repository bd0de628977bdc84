/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/list.h"

#include "base/check.h"

/*
 * A list:
 * - each element is the `prev` of its `next`: no element was freed or moved while it was linked;
 * - `next` leads back to the head.
 */
size_t list_check(const struct list *head, size_t most)
{
	const struct list *pos = head;
	size_t length = 0;

	for (;;) {
		INVARIANT(pos->next && pos->next->prev == pos,
			  "element %zu at %p, next %p, its prev %p", length, (const void *)pos,
			  (const void *)pos->next,
			  pos->next ? (const void *)pos->next->prev : NULL);
		pos = pos->next;
		if (pos == head)
			return length;
		length++;
		INVARIANT(length <= most, "more than %zu elements", most);
	}
}
