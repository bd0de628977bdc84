/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/doorbell.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

static uint32_t own_slot;
struct doorbell *doorbell_own;
struct arena_header *doorbell_header;

_Static_assert(sizeof(struct doorbell) <= DOORBELL_BYTES, "one page");

/*
 * A shorter file can be mapped, too, but not accessed: that raises SIGBUS. verbatimd has seen that
 * the file keeps its length, not what that is.
 */
static bool has_page(int heap_fd)
{
	struct stat st;

	return heap_fd >= 0 && !fstat(heap_fd, &st) && st.st_size >= DOORBELL_BYTES;
}

struct doorbell *doorbell_map(int heap_fd)
{
	void *page = MAP_FAILED;

	if (has_page(heap_fd))
		page = mmap(NULL, DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, heap_fd, 0);
	if (page == MAP_FAILED)
		return NULL;
	madvise(page, DOORBELL_BYTES, MADV_DONTFORK);
	return page;
}

void doorbell_unmap(struct doorbell *bell)
{
	if (bell)
		munmap(bell, DOORBELL_BYTES);
}

void doorbell_init(int heap_fd, void *arena, uint32_t slot)
{
	doorbell_header = arena_header(arena);
	own_slot = slot;
	doorbell_own = doorbell_map(heap_fd);
}

uint32_t doorbell_slot(void)
{
	return own_slot;
}

/* The child's own page is another, or there is none (MADV_DONTFORK). */
void doorbell_reset_after_fork(void)
{
	doorbell_header = NULL;
	doorbell_own = NULL;
}

void doorbell_take(void (*each)(uint32_t slot))
{
	atomic_store(&doorbell_own->rung, 0);
	for (uint32_t i = 0; i < DOORBELL_WORDS; i++) {
		/* BELL-2: after `rung` was cleared, so none of these is relaxed */
		uint64_t slots = atomic_load(&doorbell_own->slots[i]);

		if (slots)
			slots = atomic_exchange(&doorbell_own->slots[i], 0);
		for (; slots; slots &= slots - 1)
			each(i * 64 + (uint32_t)__builtin_ctzll(slots));
	}
}

void doorbell_set_cold(uint32_t slot, bool cold)
{
	uint64_t bit = 1ull << slot % 64;

	if (cold)
		atomic_fetch_or(&doorbell_header->cold[slot / 64], bit);
	else
		atomic_fetch_and(&doorbell_header->cold[slot / 64], ~bit);
}
