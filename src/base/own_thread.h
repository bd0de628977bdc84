/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Own thread - how librdmacm.so.1 tells libibverbs.so.1 of the thread that it makes.
 *
 * Pages of the program move only while its threads stand in verbs (memory/hold.h). So libibverbs
 * must know which threads are not the program's.
 */
#ifndef BASE_OWN_THREAD_H
#define BASE_OWN_THREAD_H

/*
 * libibverbs.so.1 exports it (VERBATIM_1); NULL in another implementation's. The thread runs, has
 * all signals blocked, uses no memory of the program's, and ends with the process. Forgotten in a
 * child.
 */
void verbatim_own_thread(void) __attribute__((weak));

#endif
