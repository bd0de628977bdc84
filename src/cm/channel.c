#include "cm/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "cm/export.h"
#include "cm/id.h"
#include "cm/session.h"

static uint64_t next_serial(void)
{
	static _Atomic uint64_t last;

	return ++last;
}

/*
 * A socket that is connected to itself, without a name that others could send to: verbatimd, which gets a
 * copy, puts bytes in and takes them out. Its descriptor is good for every verbatimd that there will be.
 */
static int make_descriptor(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), error;
	char stray;

	if (fd < 0)
		return -errno;
	/* Without a name the kernel chooses one that is free. */
	if (bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&name, &len) < 0 ||
	    connect(fd, (struct sockaddr *)&name, len) < 0) {
		error = -errno;
		close(fd);
		return error;
	}
	/* From here on the kernel refuses what others send. */
	while (recv(fd, &stray, sizeof(stray), MSG_DONTWAIT) >= 0)
		;
	return fd;
}

struct channel *channel_create(void)
{
	UNCANCELLED;
	struct channel *ch = calloc(1, sizeof(*ch));
	int rc;

	if (!ch)
		return NULL;
	rc = ch->base.fd = make_descriptor();
	if (rc >= 0)
		rc = session_open_channel(&ch->in_session, ch->base.fd);
	if (rc) {
		if (ch->base.fd >= 0)
			close(ch->base.fd);
		free(ch);
		errno = -rc;
		return NULL;
	}
	atomic_init(&ch->users, 1);
	ch->number = ch->in_session.number;
	ch->serial = next_serial();
	/* If verbatimd died just now the next one says that it knows nothing of the channel. */
	ch->session = session_number();
	return ch;
}

void channel_enter(struct channel *ch)
{
	atomic_fetch_add(&ch->users, 1);
}

void channel_leave(void *channel)
{
	struct channel *ch = channel;
	struct ctl_cm_ask ask = {
		.header = { .type = CTL_CM_DESTROY_CHANNEL },
		.channel = ch->number,
	};

	if (atomic_fetch_sub(&ch->users, 1) > 1)
		return;
	if (!atomic_load(&ch->is_lost))
		session_ask_plain(&ask, NULL);
	free(ch);
}

bool channel_is_gone(struct channel *ch, int rc)
{
	return atomic_load(&ch->is_lost) || rc == -ENOENT ||
	       (rc != -EAGAIN && ch->session != session_number());
}

void channel_lose(struct channel *ch)
{
	UNCANCELLED;
	int silent;

	atomic_store(&ch->is_lost, true);
	/* Destroyed: the number may be another file's by now. */
	if (ch->is_silent || ch->is_destroyed)
		return;
	silent = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (silent < 0)
		return;
	ch->is_silent = dup3(silent, ch->base.fd, O_CLOEXEC) >= 0;
	close(silent);
}

void channel_destroy(struct channel *ch)
{
	UNCANCELLED;

	id_delivery_begin();
	ch->is_destroyed = true;
	session_forget_channel(&ch->in_session);
	/* Who polls it keeps the file open. */
	close(ch->base.fd);
	id_delivery_end();
	channel_leave(ch);
}

static bool is_destroyed(const struct channel *ch)
{
	bool yes;

	id_delivery_begin();
	yes = ch->is_destroyed;
	id_delivery_end();
	return yes;
}

/*
 * Its frame may be unwound by pthread_cancel, in C, which the address sanitizer does not follow: what it
 * had marked around `byte` would stay marked, and the cleanup handlers run there.
 */
__attribute__((no_sanitize("address")))
int channel_wait(struct channel *ch, int (*take)(struct channel *ch, void *arg), void *arg)
{
	for (;;) {
		int rc = take(ch, arg);
		char byte;

		if (rc != -EAGAIN)
			return rc;
		/* What has its number now is not to be looked at. */
		if (is_destroyed(ch))
			return -EBADF;
		/* The byte stays. Signals interrupt recv as they do a call of the kernel. */
		if (recv(ch->base.fd, &byte, sizeof(byte), MSG_PEEK) < 0)
			/* Lost just now, it is no socket any more. */
			return atomic_load(&ch->is_lost) ? -ENODEV : -errno;
	}
}

CM_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *ch = channel_create();

	return ch ? &ch->base : NULL;
}

CM_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	channel_destroy(channel_of(channel));
}
