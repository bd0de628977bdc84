/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Link - translates the addresses of programs into those of the layers below.
 *
 * On Ethernet they are the same. With VERBATIM_LINK_LAYER=infiniband programs address by LID, with
 * or without a GRH. Below the verbs an address is always a GID of the interface (base/lid.h). So
 * there only the headers of datagrams depend on this mode.
 */
#ifndef VERBS_LINK_H
#define VERBS_LINK_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "object/context.h"

/* VERBATIM_LINK_LAYER is "infiniband". */
bool link_is_infiniband(void);

/* The LID of the context's port; 0: its interface has no IPv4 address. */
uint16_t link_lid(struct context *context);

/* Writes the address for the layers below to *resolved. False: neither LID nor GID is valid. */
bool link_resolve(struct context *context, const struct ibv_ah_attr *asked,
		  struct ibv_ah_attr *resolved);

#endif
