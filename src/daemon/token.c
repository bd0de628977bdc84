/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/token.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "event/close_pool.h"
#include "event/receive_queue.h"

#define PROBES_MAX 64

int token_make_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool token_get_name(int fd, struct sockname *out)
{
	if (!receive_queue_is_unix(fd, SOCK_DGRAM))
		return false;
	*out = (struct sockname){ .len = sizeof(out->addr) }; /* zero beyond what is filled in */
	return !getsockname(fd, (struct sockaddr *)&out->addr, &out->len);
}

static bool is_named(int fd, const struct sockname *name)
{
	struct sockname actual;

	return token_get_name(fd, &actual) && sockname_equal(&actual, name);
}

bool token_is_held(int fd, const struct sockname *name)
{
	return !connect(fd, (const struct sockaddr *)&name->addr, name->len) ||
	       (errno != ECONNREFUSED && errno != ENOENT && errno != ENOTDIR);
}

/*
 * The name alone proves nothing: another network namespace can have the same. What is sent to the
 * name from here has to arrive at the token.
 */
static int probe(uid_t uid, int sender, int token_fd, const struct sockname *name)
{
	char nonce[16], got[sizeof(nonce)];
	bool sent = false;

	if (getrandom(nonce, sizeof(nonce), GRND_NONBLOCK) != sizeof(nonce))
		return -EAGAIN;
	for (int i = 0; i < PROBES_MAX; i++) {
		if (!sent) {
			sent = sendto(sender, nonce, sizeof(nonce), MSG_DONTWAIT | MSG_NOSIGNAL,
				      (const struct sockaddr *)&name->addr, name->len) >= 0;
			/* Other processes may have filled its queue: makes room. */
			if (!sent && errno != EAGAIN)
				return -EPERM;
		}

		/* They may have put descriptors in, which have to be closed. */
		if (close_pool_is_behind(uid))
			return -EDQUOT;

		ssize_t n = receive_queue_take_bytes(uid, token_fd, got, sizeof(got));

		if (n == sizeof(got) && !memcmp(got, nonce, sizeof(got)))
			return 0;
		if (n < 0 && sent)
			return -EPERM;
	}
	return -EPERM;
}

int token_prove(uid_t uid, int token_fd, const struct sockname *name)
{
	int sender, rc;

	if (!is_named(token_fd, name))
		return -EPERM;
	sender = token_make_socket();
	if (sender < 0)
		return -errno;
	rc = probe(uid, sender, token_fd, name);
	close(sender);
	return rc;
}
