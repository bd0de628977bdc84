/*
 * Imported - imports regions of another process and copies to and from them: memory/imported.h.
 *
 * The key of an import stands for {link, key of the region there}. Each copy looks that key up in the
 * other's arena, as a WRITE does (shm/onesided.h), so it fails once the region is deregistered, and
 * its owner waits for copies under way.
 */
#ifndef SHM_IMPORTED_H
#define SHM_IMPORTED_H

#include <stdint.h>

#include "shm/link.h"
#include "object/mr.h"

void imported_init(void);

/*
 * The region with this handle (index of its key) in the link's process, of the PD with that number there,
 * as a region of `pd`. 0, or with a cause reported -EINVAL (there is none), -EOPNOTSUPP (its memory cannot be
 * reached), -ENOMEM.
 */
int imported_import(struct link *link, uint32_t pd_number, uint32_t handle, struct pd *pd,
		   struct mr **out);

#endif
