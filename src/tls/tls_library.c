/* SPDX-License-Identifier: BSD-2-Clause */
#include "tls/tls_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

static struct tls_library library;
static bool is_loaded;

static void load(void)
{
	void *handle = dlopen(TLS_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	is_loaded = handle != NULL;
	if (!handle)
		return;
#define X(name)                                                                                    \
	library.name = (__typeof__(library.name))dlsym(handle, "gnutls_" #name);                   \
	is_loaded &= library.name != NULL;
	TLS_FUNCTIONS(X)
#undef X
	/* cppcheck-suppress resourceLeak; it stays */
}

const struct tls_library *tls_library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return is_loaded ? &library : NULL;
}
