/*
 * Awake - whether it pays the progress thread to stay awake for a moment before it sleeps.
 *
 * Who wakes a sleeper pays for it: the sender of a packet on this host, or this host's interrupt, by
 * waking up another processor, which costs as much as the packet itself and more on a virtual machine.
 * So where events follow one another within AWAKE_NS, the progress thread looks on that long instead.
 *
 * But to look on takes the processor from whoever might use it, perhaps from the very thread of the
 * program that waits for what the progress thread has just stored, and nothing will come before
 * that thread has answered. That shows: soon nothing comes while it looks. Then it is not tried
 * again before AWAKE_PAUSE_MIN short sleeps in a row, and each further time makes that four times
 * as many; so where looking on is of no use, it costs AWAKE_NS in AWAKE_PAUSE_MAX sleeps. But a
 * look in vain costs no more than some ten sleeps: where AWAKE_WORTH events were found before it,
 * as in a stream with a gap now and then, it was worth it.
 *
 * Pure; used by the progress thread alone.
 */
#ifndef ADAPTER_AWAKE_H
#define ADAPTER_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

#define AWAKE_NS	50000ull
#define AWAKE_SHORT_NS	200000ull /* a sleep, with the waking up, after which AWAKE_NS may be enough */
#define AWAKE_PAUSE_MIN 4
#define AWAKE_PAUSE_MAX 4096
#define AWAKE_WORTH	16 /* events, for one look in vain */

/* All zero is a good beginning. */
struct awake {
	bool looks;	/* it is worth a try */
	uint32_t sleeps; /* that were short, one after the other */
	uint32_t pause; /* so many of these before the next try, less AWAKE_PAUSE_MIN */
	uint32_t found; /* events, since it began to look on */
};

/* Something came while it looked on. */
void awake_on_found(struct awake *awake);
/* It looked on, and nothing came. */
void awake_on_vain(struct awake *awake);
/* It slept for so long. */
void awake_on_slept(struct awake *awake, uint64_t ns);

#endif
