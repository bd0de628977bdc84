/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stubs - the entry points that Verbatim does not implement; they fail with EOPNOTSUPP.
 */
#ifndef VERBS_STUBS_H
#define VERBS_STUBS_H

#include <infiniband/verbs.h>

/* Sets the op table's entries that are not implemented. */
void stubs_fill(struct verbs_context *verbs);

#endif
