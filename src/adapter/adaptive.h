/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adaptive polling - whether the progress thread polls for a moment before it sleeps.
 *
 * The thread that wakes a sleeper pays for it: a sender on this host, or this host's interrupt,
 * spends as much on waking another processor as on the packet itself, and more on a virtual
 * machine. So where events follow one another within ADAPTIVE_POLL_NS, the progress thread keeps
 * polling that long.
 *
 * Polling takes the processor from other threads, perhaps from the very one that waits for what the
 * progress thread has just stored; and nothing comes before that one has answered. Then polling
 * finds nothing. After a failure the progress thread does not poll again before ADAPTIVE_PAUSE_MIN
 * short sleeps in a row, and each further failure makes the pause four times as long. So where
 * polling is of no use it costs ADAPTIVE_POLL_NS in ADAPTIVE_PAUSE_MAX sleeps. A failure after
 * ADAPTIVE_WORTH events, as at a gap in a stream, counts as success: it has cost no more than some
 * ten sleeps.
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
	uint32_t short_sleeps; /* one after the other */
	uint32_t pause;	       /* short sleeps before the next try, less ADAPTIVE_PAUSE_MIN */
	uint32_t found;	       /* events since it keeps polling */
};

/* Something came while the thread kept polling. */
void adaptive_on_found(struct adaptive *adaptive);
/* It kept polling, and nothing came. */
void adaptive_on_vain(struct adaptive *adaptive);
/* It did not poll, and slept for so long, waking up included. */
void adaptive_on_slept(struct adaptive *adaptive, uint64_t ns);

#endif
