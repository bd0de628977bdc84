/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migrated - whether pages of this process have migrated (VERBATIM_MIGRATE in verbatim(7)), as its
 * mappings show.
 */
#ifndef VERIFY_MIGRATED_H
#define VERIFY_MIGRATED_H

#include <stdbool.h>

bool region_is_migrated(const void *memory);

#endif
