/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Link - what a program gives as an address, made into what the layers below take for one.
 *
 * On Ethernet that is the same. With VERBATIM_LINK_LAYER=infiniband programs address by LID, with or
 * without a GRH; below the verbs an address is always that of the interface (base/lid.h), so nothing
 * there knows of this mode but for the headers of datagrams.
 */
#ifndef VERBS_LINK_H
#define VERBS_LINK_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "object/context.h"

/* The mode that contexts are opened in. */
bool link_is_infiniband(void);

/* The LID of the context's port; 0: its interface has no IPv4 address. */
uint16_t link_lid(struct context *context);

/* *resolved is the address for the layers below; false: `asked` names nobody. */
bool link_resolve(struct context *context, const struct ibv_ah_attr *asked,
		  struct ibv_ah_attr *resolved);

#endif
