/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fork_free.h"

#include <stdbool.h>
#include <stdlib.h>

struct kept {
	struct kept *next;
};

static bool in_handler;
static struct kept *kept;

void fork_free_begin(void)
{
	in_handler = true;
}

void fork_free_end(void)
{
	in_handler = false;
}

void fork_free(void *block)
{
	struct kept *k = block;

	if (!in_handler || !k) {
		free(block);
		return;
	}
	k->next = kept;
	kept = k;
}

void fork_free_kept(void)
{
	while (kept) {
		struct kept *k = kept;

		kept = k->next;
		free(k);
	}
}
