/*
 * Counter - how often packets came that no connection could use, and what happened to the others.
 *
 * Anybody may send such packets, at any rate: they are counted, and nothing is reported for each.
 * Relaxed: a reader sees each count some time.
 */
#ifndef TRANSPORT_COUNTER_H
#define TRANSPORT_COUNTER_H

#include <stdint.h>

enum counter {
	COUNTER_MALFORMED,     /* not a packet of RoCEv2 */
	COUNTER_NO_QP,	       /* for a QP that does not exist */
	COUNTER_STRANGER,      /* not from the other end of the connection */
	COUNTER_OTHER_SERVICE, /* RC to a UC QP, ... */
	COUNTER_NAKS_SENT,
	COUNTER_NAKS_RECEIVED,
	COUNTER_WENT_BACK,     /* requesters that sent anew because of a loss */
	COUNTER_PROBES,	       /* ... because nothing came back */
	COUNTERS
};

void counter_add(enum counter counter);
uint64_t counter_read(enum counter counter);

#endif
