/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/thread.h"

#include <pthread.h>
#include <signal.h>

#include "base/own_thread.h"

/*
 * The stack has the default size: glibc takes the thread-local memory of the program and its
 * libraries from it, which may be more than these threads use themselves.
 */
static int create(pthread_t *thread, void *(*run)(void *unused))
{
	pthread_attr_t attr;
	int error;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(thread, &attr, run, NULL);
	pthread_attr_destroy(&attr);
	return error;
}

int thread_start(void *(*run)(void *unused), const char *name)
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = create(&thread, run);
	if (!error) {
		pthread_setname_np(thread, name);
		if (verbatim_own_thread)
			verbatim_own_thread();
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}
