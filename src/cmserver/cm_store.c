/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "event/close_pool.h"

#define MAGIC	   0x53436d56u
#define READ_COUNT 32 /* records at once */

struct header {
	uint32_t magic;
	uint32_t version;
	uint32_t has_ended;
};

_Static_assert(4096 % CM_STORE_RECORD_BYTES == 0, "no record crosses a page");
_Static_assert(CM_STORE_FIRST *CM_STORE_RECORD_BYTES == 4096, "the header has a page");

static off_t place(uint32_t slot)
{
	return (off_t)slot * CM_STORE_RECORD_BYTES;
}

static void write_header(struct cm_store *s, bool has_ended)
{
	struct header header = { MAGIC, CTL_VERSION, has_ended };

	if (pwrite(s->fd, &header, sizeof(header), 0) < 0)
		return;
}

int cm_store_open(struct cm_store *s, int fd)
{
	struct header header = { 0 };
	struct stat status;

	if (!memory_file_is_fixed(fd) || fstat(fd, &status) < 0 ||
	    status.st_size != CTL_CM_STORE_BYTES ||
	    pread(fd, &header, sizeof(header), 0) != sizeof(header))
		return -EINVAL;
	if (header.magic &&
	    (header.magic != MAGIC || header.version != CTL_VERSION || header.has_ended))
		return -ESTALE;
	*s = (struct cm_store){ .fd = fd, .next = CM_STORE_FIRST };
	write_header(s, false);
	return 0;
}

void cm_store_close(struct cm_store *s, uid_t uid)
{
	close_pool_close(uid, s->fd);
	free(s->free);
	*s = CM_STORE_NONE;
}

void cm_store_end(struct cm_store *s)
{
	if (s->fd >= 0)
		write_header(s, true);
}

static uint32_t take_slot(struct cm_store *s)
{
	if (s->free_count)
		return s->free[--s->free_count];
	return s->next < CM_STORE_RECORDS ? s->next++ : 0;
}

/* Out of memory the slot is lost. */
static void give_slot(struct cm_store *s, uint32_t slot)
{
	if (s->free_count == s->free_room) {
		uint32_t room = s->free_room ? 2 * s->free_room : 64;
		uint32_t *larger = realloc(s->free, room * sizeof(*larger));

		if (!larger)
			return;
		s->free = larger;
		s->free_room = room;
	}
	s->free[s->free_count++] = slot;
}

void cm_store_put(struct cm_store *s, uint32_t *slot, const void *record, size_t bytes)
{
	if (s->fd < 0)
		return;
	if (!*slot)
		*slot = take_slot(s);
	if (*slot && pwrite(s->fd, record, bytes, place(*slot)) < 0)
		return;
}

void cm_store_drop(struct cm_store *s, uint32_t *slot)
{
	uint32_t none = 0;

	if (s->fd >= 0 && *slot) {
		if (pwrite(s->fd, &none, sizeof(none), place(*slot)) == sizeof(none))
			give_slot(s, *slot);
	}
	*slot = 0;
}

void cm_store_read(struct cm_store *s, bool (*keep)(void *arg, uint32_t slot, const void *record),
		   void *arg)
{
	/* the daemon has one thread */
	static _Alignas(8) char bytes[READ_COUNT][CM_STORE_RECORD_BYTES];
	off_t at = place(CM_STORE_FIRST);

	/* Most of the file is a hole. */
	while ((at = lseek(s->fd, at, SEEK_DATA)) >= 0) {
		ssize_t n = pread(s->fd, bytes, sizeof(bytes), at);
		uint32_t first = (uint32_t)(at / CM_STORE_RECORD_BYTES);

		if (n <= 0)
			return;
		for (uint32_t i = 0; i < (size_t)n / CM_STORE_RECORD_BYTES; i++) {
			uint32_t slot = first + i, kind;

			memcpy(&kind, bytes[i], sizeof(kind));
			/* Slots in the hole before it are free. */
			for (; s->next < slot; s->next++)
				give_slot(s, s->next);
			s->next = slot + 1;
			if (!kind)
				give_slot(s, slot);
			else if (!keep(arg, slot, bytes[i]))
				cm_store_drop(s, &slot);
		}
		at += n - n % CM_STORE_RECORD_BYTES;
	}
}
