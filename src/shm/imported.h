/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Imported - imports regions of another process and copies to and from them: memory/imported.h.
 *
 * An imported region's key names a link, and the region's key in the other process. Each copy
 * checks that key in the other's arena, as a WRITE does (shm/onesided.h). So copies fail once the
 * region is deregistered, and ibv_dereg_mr there waits for copies under way.
 */
#ifndef SHM_IMPORTED_H
#define SHM_IMPORTED_H

#include <stdint.h>

#include "object/mr.h"
#include "shm/link.h"

void imported_init(void);

/*
 * Makes a region of `pd` for a region of the link's process, found by its handle (index of its key)
 * and the number of its PD there. 0, or with a cause reported -EINVAL (there is none), -EOPNOTSUPP
 * (this process may not copy its memory), -ENOMEM.
 */
int imported_import(struct link *link, uint32_t pd_number, uint32_t handle, struct pd *pd,
		    struct mr **out);

#endif
