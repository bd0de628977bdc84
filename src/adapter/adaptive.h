/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adaptive polling - whether the progress thread polls for a moment before it sleeps.
 *
 * A wake-up is paid by its sender: on this host the sending thread, else the interrupt. Waking
 * another processor costs it as much as the packet itself, and more on a virtual machine. So where
 * events follow one another within ADAPTIVE_POLL_NS, the progress thread keeps polling that long.
 *
 * Polling takes the processor from other threads. One of them may be the consumer of the last
 * event, and no event may come before its answer. Then polling finds nothing. After such a failure
 * the progress thread does not poll again before 4 * ADAPTIVE_PAUSE_MIN short sleeps in a row; each
 * further failure makes the pause four times as long. So useless polling costs ADAPTIVE_POLL_NS in
 * ADAPTIVE_PAUSE_MAX sleeps. A failure after ADAPTIVE_WORTH events, as at a gap in a stream, counts
 * as success: those events saved more than it cost.
 *
 * Pure; used by the progress thread alone.
 */
#ifndef ADAPTER_ADAPTIVE_H
#define ADAPTER_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

#define ADAPTIVE_POLL_NS   50000ull
#define ADAPTIVE_SHORT_NS  200000ull /* a short sleep: polling instead may be enough */
#define ADAPTIVE_PAUSE_MIN 4
#define ADAPTIVE_PAUSE_MAX 4096
#define ADAPTIVE_WORTH	   16 /* events that are worth a failure */

/* All zero at first. */
struct adaptive {
	bool keeps_polling;    /* before the next sleep */
	uint32_t short_sleeps; /* in a row */
	uint32_t pause;	       /* short sleeps before the next try, less ADAPTIVE_PAUSE_MIN */
	uint32_t found;	       /* events since polling began */
};

/* An event came while the thread kept polling. */
static inline void adaptive_on_found(struct adaptive *adaptive)
{
	if (++adaptive->found >= ADAPTIVE_WORTH)
		adaptive->pause = 0;
}

/* The thread kept polling, and no event came. */
static inline void adaptive_on_empty(struct adaptive *adaptive)
{
	if (adaptive->found < ADAPTIVE_WORTH) {
		uint32_t pause = (adaptive->pause + ADAPTIVE_PAUSE_MIN) * 4;

		adaptive->pause = (pause < ADAPTIVE_PAUSE_MAX ? pause : ADAPTIVE_PAUSE_MAX) -
				  ADAPTIVE_PAUSE_MIN;
	}
	adaptive->keeps_polling = false;
	adaptive->short_sleeps = adaptive->found = 0;
}

/* The thread did not poll. It slept for `ns`, waking up included. */
static inline void adaptive_on_slept(struct adaptive *adaptive, uint64_t ns)
{
	adaptive->short_sleeps = ns < ADAPTIVE_SHORT_NS ? adaptive->short_sleeps + 1 : 0;
	adaptive->keeps_polling = adaptive->short_sleeps >= adaptive->pause + ADAPTIVE_PAUSE_MIN;
}

#endif
