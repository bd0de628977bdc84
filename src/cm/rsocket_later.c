/*
 * rsockets: not there yet.
 */
#include "cm/export.h"

#define LATER(name)                                                                                \
	CM_EXPORT long name(void);                                                                 \
	long name(void)                                                                            \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return -1;                                                                         \
	}

LATER(raccept)
LATER(rbind)
LATER(rclose)
LATER(rconnect)
LATER(rfcntl)
LATER(rgetpeername)
LATER(rgetsockname)
LATER(rgetsockopt)
LATER(riomap)
LATER(riounmap)
LATER(riowrite)
LATER(rlisten)
LATER(rpoll)
LATER(rread)
LATER(rreadv)
LATER(rrecv)
LATER(rrecvfrom)
LATER(rrecvmsg)
LATER(rselect)
LATER(rsend)
LATER(rsendmsg)
LATER(rsendto)
LATER(rsetsockopt)
LATER(rshutdown)
LATER(rsocket)
LATER(rwrite)
LATER(rwritev)
