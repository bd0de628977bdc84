/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS library - GnuTLS, loaded when it is needed: programs without TLS are spared it.
 *
 * The functions are those of gnutls(3), without the prefix.
 */
#ifndef TLS_TLS_LIBRARY_H
#define TLS_TLS_LIBRARY_H

#include <gnutls/gnutls.h>

#define TLS_LIBRARY "libgnutls.so.30"

#define TLS_FUNCTIONS(X)                                                                           \
	X(init)                                                                                    \
	X(deinit)                                                                                  \
	X(priority_set_direct)                                                                     \
	X(credentials_set)                                                                         \
	X(psk_allocate_client_credentials)                                                         \
	X(psk_allocate_server_credentials)                                                         \
	X(psk_free_client_credentials)                                                             \
	X(psk_free_server_credentials)                                                             \
	X(psk_set_client_credentials)                                                              \
	X(psk_set_server_credentials_function)                                                     \
	X(hex_decode2)                                                                             \
	X(transport_set_int2)                                                                      \
	X(transport_set_push_function)                                                             \
	X(handshake)                                                                               \
	X(record_get_direction)                                                                    \
	X(record_get_state)                                                                        \
	X(strerror)

struct tls_library {
#define X(name) __typeof__(gnutls_##name) *name;
	TLS_FUNCTIONS(X)
#undef X
};

/* Any thread. NULL: it cannot be loaded. */
const struct tls_library *tls_library(void);

#endif
