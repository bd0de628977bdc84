/* SPDX-License-Identifier: BSD-2-Clause */
#include "tls/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cause.h"
#include "tls/tls_library.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

#define FILE_BYTES_MAX 1024
#define NAME_BYTES_MAX 128 /* of GnuTLS */
#define KEY_DIGITS_MIN 32  /* the handshake lets anybody try shorter ones, at leisure */
/* Who learns the key later reads nothing of before: with Diffie-Hellman. */
#define PRIORITY                                                                                   \
	"NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+ECDHE-PSK:+GROUP-X25519:+GROUP-SECP256R1:+SIGN-ALL"

struct tls {
	int fd;
	gnutls_session_t session;
	gnutls_psk_client_credentials_t client;
	gnutls_psk_server_credentials_t server;
};

/*
 * The line of the file. Read once: the program may change its environment, its directory or its
 * user later, and no connection may go in the clear for that.
 */
static struct {
	pthread_mutex_t lock; /* of loading */
	_Atomic bool is_loaded;
	char text[FILE_BYTES_MAX + 1];
	const char *name;
	gnutls_datum_t key; /* hexadecimal */
} psk = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_on;
static const char *path; /* of the file; NULL: there was no memory for it */

static void read_environment(void)
{
	const char *value = secure_getenv("VERBATIM_IWARP_TLS");

	is_on = value != NULL;
	path = value ? strdup(value) : NULL;
}

bool tls_is_on(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return is_on;
}

static int refuse(char *why, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(char *why, int rc, const char *fmt, ...)
{
	va_list values;

	va_start(values, fmt);
	vsnprintf(why, TLS_WHY_BYTES, fmt, values);
	va_end(values);
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * The key.
 */

/* Who may read the key may pretend to be either end, and who may write it, too. */
static int check_file(int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (status.st_mode & (S_IRWXG | S_IRWXO) ||
	    (status.st_uid != 0 && status.st_uid != geteuid()))
		return -EACCES;
	return 0;
}

static int read_file(char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;
	ssize_t got = 0;

	if (fd < 0)
		return -errno;
	rc = check_file(fd);
	if (!rc) {
		got = read(fd, text, FILE_BYTES_MAX);
		rc = got < 0 ? -errno : got == FILE_BYTES_MAX ? -EINVAL : 0;
	}
	close(fd);
	text[got > 0 ? got : 0] = 0;
	return rc;
}

/* Splits NAME:HEXADECIMAL KEY. False: it is none. */
static bool parse(char *text)
{
	char *colon, *digits;
	size_t count;

	text[strcspn(text, "\r\n")] = 0;
	colon = strchr(text, ':');
	if (!colon || colon == text || colon - text > NAME_BYTES_MAX)
		return false;
	digits = colon + 1;
	count = strlen(digits);
	if (count < KEY_DIGITS_MIN || count % 2 || digits[strspn(digits, "0123456789abcdefABCDEF")])
		return false;
	*colon = 0;
	psk.name = text;
	psk.key.data = (unsigned char *)digits;
	psk.key.size = (unsigned int)count;
	return true;
}

/* With the lock. */
static int load(char *why)
{
	int rc = path ? read_file(psk.text) : -ENOMEM;

	if (!rc && !parse(psk.text))
		rc = -EINVAL;
	if (!rc) {
		psk.is_loaded = true;
		return 0;
	}
	explicit_bzero(psk.text, sizeof(psk.text));
	if (rc == -EINVAL)
		return refuse(why, rc,
			      "\"%s\" is no file with a line NAME:KEY of at least %d hexadecimal "
			      "digits",
			      path, KEY_DIGITS_MIN);
	if (rc == -EACCES)
		return refuse(why, rc, "%s cannot be read, or is another user's, or open to others",
			      path);
	return refuse(why, rc, "%s: %s", path ? path : "the path", strerror(-rc));
}

static int check_psk(char *why)
{
	int rc;

	pthread_mutex_lock(&psk.lock);
	rc = psk.is_loaded ? 0 : load(why);
	pthread_mutex_unlock(&psk.lock);
	return rc;
}

void tls_after_fork_in_child(void)
{
	pthread_mutex_init(&psk.lock, NULL);
}

/*
 * ------------------------------------------------------------------------------------------
 * The kernel.
 */

/* A socket that is not connected tells, too: ENOTCONN, where there is kTLS. */
static bool kernel_has_tls(void)
{
	/* not socket(): as of iwcm.c */
	int fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has;

	if (fd < 0)
		return true; /* something else is short; the connection will tell */
	has = !setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) || errno == ENOTCONN;
	close(fd);
	return has;
}

int tls_check(char why[TLS_WHY_BYTES])
{
	if (!kernel_has_tls())
		return refuse(why, -EOPNOTSUPP,
			      "the kernel has no kTLS (modprobe tls; CONFIG_TLS)");
	if (!tls_library())
		return refuse(why, -EOPNOTSUPP, "GnuTLS (%s) cannot be loaded", TLS_LIBRARY);
	return check_psk(why);
}

/* One direction. */
static int give_keys(struct tls *tls, bool receive)
{
	const struct tls_library *lib = tls_library();
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info = { .version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128 },
	};
	gnutls_datum_t mac, iv, key;
	unsigned char sequence[8];
	int rc;

	if (lib->record_get_state(tls->session, receive, &mac, &iv, &key, sequence) < 0 ||
	    iv.size != sizeof(info.salt) + sizeof(info.iv) || key.size != sizeof(info.key))
		return -EPROTO;
	memcpy(info.salt, iv.data, sizeof(info.salt));
	memcpy(info.iv, iv.data + sizeof(info.salt), sizeof(info.iv));
	memcpy(info.key, key.data, sizeof(info.key));
	memcpy(info.rec_seq, sequence, sizeof(info.rec_seq));
	rc = setsockopt(tls->fd, SOL_TLS, receive ? TLS_RX : TLS_TX, &info, sizeof(info)) < 0
		     ? -errno
		     : 0;
	explicit_bzero(&info, sizeof(info));
	return rc;
}

static int hand_to_kernel(struct tls *tls)
{
	int rc = setsockopt(tls->fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 ? -errno : 0;

	if (!rc)
		rc = give_keys(tls, false);
	if (!rc)
		rc = give_keys(tls, true);
	if (rc)
		cause_report(CAUSE_IWARP_TLS, 0, "the kernel does not take the keys: %s",
			     strerror(-rc));
	return rc ? -EPROTO : 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * The handshake.
 */

/* The peer's name has to be that of the file. */
static int key_of(gnutls_session_t session, const char *name, gnutls_datum_t *key)
{
	if (strcmp(psk.name, name))
		return -1;
	return tls_library()->hex_decode2(&psk.key, key) < 0 ? -1 : 0; /* GnuTLS frees it */
}

static int set_client(struct tls *tls)
{
	const struct tls_library *lib = tls_library();
	int rc = lib->psk_allocate_client_credentials(&tls->client);

	if (rc >= 0)
		rc = lib->psk_set_client_credentials(tls->client, psk.name, &psk.key,
						     GNUTLS_PSK_KEY_HEX);
	return rc < 0 ? rc : lib->credentials_set(tls->session, GNUTLS_CRD_PSK, tls->client);
}

static int set_server(struct tls *tls)
{
	const struct tls_library *lib = tls_library();
	int rc = lib->psk_allocate_server_credentials(&tls->server);

	if (rc < 0)
		return rc;
	lib->psk_set_server_credentials_function(tls->server, key_of);
	return lib->credentials_set(tls->session, GNUTLS_CRD_PSK, tls->server);
}

/* GnuTLS would do kTLS itself, if its configuration says so, but not by a function of ours. */
static ssize_t push(gnutls_transport_ptr_t fd, const void *bytes, size_t count)
{
	return send((int)(intptr_t)fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

struct tls *tls_begin(int fd, bool client)
{
	const struct tls_library *lib = tls_library();
	struct tls *tls = lib && psk.is_loaded ? calloc(1, sizeof(*tls)) : NULL;
	int rc;

	if (!tls)
		return NULL;
	tls->fd = fd;
	/* No record follows the handshake but those of the program: the kernel takes no others. */
	if (lib->init(&tls->session, (client ? GNUTLS_CLIENT : GNUTLS_SERVER) | GNUTLS_NONBLOCK |
					     GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS |
					     GNUTLS_NO_AUTO_REKEY) < 0) {
		free(tls);
		return NULL;
	}
	rc = lib->priority_set_direct(tls->session, PRIORITY, NULL);
	if (rc >= 0)
		rc = client ? set_client(tls) : set_server(tls);
	if (rc < 0) {
		cause_report(CAUSE_IWARP_TLS, 0, "GnuTLS: %s", lib->strerror(rc));
		tls_end(tls);
		return NULL;
	}
	lib->transport_set_int2(tls->session, fd, fd);
	lib->transport_set_push_function(tls->session, push);
	return tls;
}

int tls_go_on(struct tls *tls)
{
	const struct tls_library *lib = tls_library();
	int rc = lib->handshake(tls->session);

	if (rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED)
		return lib->record_get_direction(tls->session) ? EPOLLOUT : EPOLLIN;
	if (rc == GNUTLS_E_WARNING_ALERT_RECEIVED)
		return EPOLLIN;
	if (rc < 0) {
		cause_report(CAUSE_IWARP_TLS, 0, "the handshake: %s", lib->strerror(rc));
		return -EPROTO;
	}
	return hand_to_kernel(tls);
}

void tls_end(struct tls *tls)
{
	const struct tls_library *lib;

	if (!tls)
		return; /* and loads nothing */
	lib = tls_library();
	lib->deinit(tls->session);
	if (tls->client)
		lib->psk_free_client_credentials(tls->client);
	if (tls->server)
		lib->psk_free_server_credentials(tls->server);
	free(tls);
}
