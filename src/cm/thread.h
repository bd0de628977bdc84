/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread - starts the threads of librdmacm: detached, with all signals blocked, known to libibverbs
 * (base/own_thread.h).
 */
#ifndef CM_THREAD_H
#define CM_THREAD_H

/* `name`: at most 15 characters. 0 or -errno. */
int thread_start(void *(*run)(void *unused), const char *name);

#endif
