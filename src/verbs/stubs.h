/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stubs - the entry points that Verbatim does not implement, each of which fails with EOPNOTSUPP.
 */
#ifndef VERBS_STUBS_H
#define VERBS_STUBS_H

#include <infiniband/verbs.h>

/* Sets the entries of the op table that are not implemented. */
void stubs_fill(struct verbs_context *verbs);

#endif
