/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/mapping.h"

#include <errno.h>
#include <stdlib.h>

#include "rsocket/message.h"

#define NO_ENTRY (-1)

struct local_mapping {
	struct list link;   /* in mapping_news until the peer has been told, then in mapping_list */
	struct ibv_mr *mr;  /* NULL: unmapped, or a thread is about to unmap it */
	struct mapping own; /* as the peer is told; empty if unmapped */
	bool told;	    /* the peer was, of the mapping */
	bool ended;	    /* unmapped; the peer is still to be told */
	int entry;	    /* index in the peer's list, or NO_ENTRY */
};

static struct local_mapping *mapping_of(struct list *link)
{
	return list_entry(link, struct local_mapping, link);
}

/* Not by one that has ended: the peer is told of that before it is told of the next. */
static bool is_taken(const struct stream *s, int entry)
{
	const struct list *const lists[] = { &s->mapping_list, &s->mapping_news };
	struct list *pos;

	for (int i = 0; i < 2; i++)
		list_for_each(pos, lists[i])
			if (mapping_of(pos)->entry == entry && !mapping_of(pos)->ended)
				return true;
	return false;
}

static int find_entry(const struct stream *s)
{
	for (int i = 0; i < (int)s->remote_mappings.length; i++)
		if (!is_taken(s, i))
			return i;
	return NO_ENTRY;
}

static off_t add(struct stream *s, void *memory, size_t length, bool writable, off_t offset)
	REQUIRES(s->lock)
{
	int access = IBV_ACCESS_LOCAL_WRITE | (writable ? IBV_ACCESS_REMOTE_WRITE : 0);
	struct local_mapping *mapping;
	int entry = NO_ENTRY;

	if (!s->qp)
		return -ENOTCONN;
	if (length > UINT32_MAX)
		return -EINVAL;
	if (writable) {
		entry = find_entry(s);
		if (entry == NO_ENTRY)
			return -ENOMEM;
	}
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return -ENOMEM;
	mapping->mr = ibv_reg_mr(s->qp->pd, memory, length, access);
	if (!mapping->mr) {
		int error = errno;

		free(mapping);
		return -error;
	}
	mapping->entry = entry;
	mapping->own = (struct mapping){
		.offset = offset == -1 ? (uintptr_t)memory : (uint64_t)offset,
		.region = { (uintptr_t)memory, mapping->mr->rkey, (uint32_t)length },
	};
	list_add_tail(writable ? &s->mapping_news : &s->mapping_list, &mapping->link);
	return (off_t)mapping->own.offset;
}

off_t mapping_add(struct stream *s, void *memory, size_t length, bool writable, off_t offset)
{
	off_t rc;

	lock_acquire(&s->lock);
	rc = add(s, memory, length, writable, offset);
	lock_release(&s->lock);
	return rc;
}

/* The region has ended. What the peer was told of stays in mapping_news until it knows that. */
static void end_mapping(struct stream *s, struct local_mapping *mapping) REQUIRES(s->lock)
{
	mapping->own = (struct mapping){ 0 };
	mapping->ended = true;
	list_del(&mapping->link);
	if (!mapping->told)
		free(mapping);
	else
		list_add_tail(&s->mapping_news, &mapping->link);
}

static struct local_mapping *find(struct stream *s, void *memory, size_t length) REQUIRES(s->lock)
{
	struct list *const lists[] = { &s->mapping_list, &s->mapping_news };
	struct local_mapping *mapping;
	struct list *pos;

	for (int i = 0; i < 2; i++)
		list_for_each(pos, lists[i]) {
			mapping = mapping_of(pos);
			if (mapping->mr && mapping->own.region.addr == (uintptr_t)memory &&
			    mapping->own.region.length == length)
				return mapping;
		}
	return NULL;
}

/* The lock is not held over ibv_dereg_mr, which waits for a process that is copying. */
int mapping_remove(struct stream *s, void *memory, size_t length)
{
	struct local_mapping *mapping;
	struct ibv_mr *mr = NULL;
	int rc;

	lock_acquire(&s->lock);
	mapping = find(s, memory, length);
	if (mapping) {
		mr = mapping->mr;
		mapping->mr = NULL; /* no other thread finds it */
	}
	lock_release(&s->lock);
	if (!mr)
		return -EINVAL;
	rc = -ibv_dereg_mr(mr);
	lock_acquire(&s->lock);
	if (rc)
		mapping->mr = mr;
	else
		end_mapping(s, mapping);
	lock_release(&s->lock);
	return rc;
}

/* Its memory stays here while a thread unmaps it: the thread is not done before it has the lock. */
void mapping_tell(struct stream *s)
{
	while (!list_empty(&s->mapping_news) && s->may_send && message_can_send(s)) {
		struct local_mapping *mapping = mapping_of(s->mapping_news.next);

		message_post_mapping(s, (uint32_t)mapping->entry, &mapping->own);
		list_del(&mapping->link);
		mapping->told = true;
		if (mapping->ended)
			free(mapping);
		else
			list_add_tail(&s->mapping_list, &mapping->link);
	}
}

/* The peer may write the list meanwhile: a torn entry yields a bad address at its own end only. */
bool mapping_find(struct stream *s, uint64_t offset, struct region *place)
{
	for (uint32_t i = 0; s->mapped && i < s->mappings; i++) {
		volatile struct mapping *mapping = &s->mapped[i];
		uint64_t begin = mapping->offset;
		uint32_t length = mapping->region.length;

		if (offset < begin || offset - begin >= length)
			continue;
		*place =
			(struct region){ mapping->region.addr + (offset - begin),
					 mapping->region.key, length - (uint32_t)(offset - begin) };
		return true;
	}
	return false;
}

void mapping_free(struct stream *s)
{
	struct list *const lists[] = { &s->mapping_list, &s->mapping_news };

	for (int i = 0; i < 2; i++)
		while (!list_empty(lists[i])) {
			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed one is in no list */
			struct local_mapping *mapping = mapping_of(lists[i]->next);

			if (mapping->mr)
				ibv_dereg_mr(mapping->mr);
			list_del(&mapping->link);
			free(mapping);
		}
}
