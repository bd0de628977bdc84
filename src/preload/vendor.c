/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interposes mlx5dv_query_device for programs that are shown a vendor_part_id of that vendor's
 * (VERBATIM_VENDOR_PART_ID): it answers that the device has none of what may be asked for.
 *
 * libmlx5 itself finds that the device is not its own, EOPNOTSUPP, which perftest 25 takes for a
 * failure of each RC QP that it posts to by ibv_wr_*. All other functions of libmlx5 stay as they
 * are, so that a program that goes on with them is told so.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "preload/real.h"

struct ibv_context;

/* The beginning of struct mlx5dv_context: the rest is what comp_mask asks for. */
struct mlx5dv_context {
	uint8_t version;
	uint64_t flags;
	uint64_t comp_mask; /* in: what is asked for; out: what there is */
};

PRELOAD_EXPORT int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attrs);

int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attrs)
{
	const char *part = secure_getenv("VERBATIM_VENDOR_PART_ID");
	void *symbol = dlsym(RTLD_NEXT, "mlx5dv_query_device");
	__typeof__(mlx5dv_query_device) *next;

	if (part && *part) {
		attrs->version = 0;
		attrs->flags = 0;
		attrs->comp_mask = 0;
		return 0;
	}
	memcpy(&next, &symbol, sizeof(next));
	return next ? next(context, attrs) : EOPNOTSUPP;
}
