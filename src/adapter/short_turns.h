/*
 * Short turns - who has them need not wait for the end of another's long one (Linux 6.12): programs
 * that spin on memory, waiting for what the progress thread is to put there, would otherwise keep
 * it waiting for milliseconds where there are no more processors than they.
 *
 * In:  nothing.
 * Out: the calling thread's share of the scheduler, where the kernel knows of that; else nothing.
 */
#ifndef ADAPTER_SHORT_TURNS_H
#define ADAPTER_SHORT_TURNS_H

void short_turns_ask(void);

#endif
