/*
 * List - a doubly linked list whose links live inside the members.
 *
 * A member that is in no list is linked to itself, so that removing it twice is harmless.
 */
#ifndef DAEMON_LIST_H
#define DAEMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *l, struct list *member)
{
	member->prev = l->prev;
	member->next = l;
	l->prev->next = member;
	l->prev = member;
}

static inline void list_remove(struct list *member)
{
	member->prev->next = member->next;
	member->next->prev = member->prev;
	list_init(member);
}

#define container_of(ptr, type, field) ((type *)((char *)(ptr)-offsetof(type, field)))

/* The body may remove the member m that it is at, and no other. */
#define list_for_each_safe(m, l)                                                                   \
	for (struct list *m = (l)->next, *m##_next = m->next; m != (l);                            \
	     m = m##_next, m##_next = m->next)

#endif
