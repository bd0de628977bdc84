/*
 * Verbs that Verbatim does not offer: entries of the op tables that say so, with a cause.
 */
#ifndef VERBS_UNSUPPORTED_H
#define VERBS_UNSUPPORTED_H

#include "object/context.h"

/* Sets the ops that no other file implements. */
void unsupported_fill(struct verbs_context *verbs);

#endif
