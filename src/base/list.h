/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * List - a doubly linked list whose links lie in the elements. No locks.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define list_entry(ptr, type, member)	container_of(ptr, type, member)
#define list_for_each(pos, head)	for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
/* `pos` may be removed in the body. */
#define list_for_each_safe(pos, after, head)                                                       \
	for ((pos) = (head)->next, (after) = (pos)->next; (pos) != (head);                         \
	     (pos) = (after), (after) = (pos)->next)

static inline void list_init(struct list *list)
{
	list->next = list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
	return list->next == list;
}

static inline void list_add_tail(struct list *head, struct list *element)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): each head is initialised */
	element->prev = head->prev;
	element->next = head;
	head->prev->next = element;
	head->prev = element;
}

/* Moves all elements of `from`, as they are, to the front of `to`. */
static inline void list_take_all(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	from->next->prev = to;
	to->next = from->next;
	list_init(from);
}

/* In builds with checks (base/check.h). Returns how many elements there are: at most `most`. */
size_t list_check(const struct list *head, size_t most);

/* Leaves the element alone in a list of its own, so that deleting it twice is harmless. */
static inline void list_del(struct list *element)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed one is in no list */
	element->prev->next = element->next;
	element->next->prev = element->prev;
	list_init(element);
}

#endif
