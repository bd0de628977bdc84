/*
 * What librdmacm exports and Verbatim does not implement: it answers EOPNOTSUPP.
 *
 * To implement a name, remove its line here and define it elsewhere; the map has it already.
 */
#include "cm/export.h"

/* Prototypes of the ABI are not repeated: long is what they all return, or wider. */
#define LATER(name)                                                                                \
	CM_EXPORT long name(void);                                                                 \
	long name(void)                                                                            \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return -1;                                                                         \
	}

/* RDMACM_1.4 */
LATER(rdma_query_addrinfo)
LATER(rdma_resolve_addrinfo)
LATER(rdma_write_cm_event)
