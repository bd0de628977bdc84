/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "cm/destroyed.h"
#include "cm/thread.h"
#include "ctl/deadline.h"
#include "ctl/fdmsg.h"
#include "ctl/hello.h"
#include "ctl/reach.h"

#define CONNECT_MS   5000
#define REQUEST_MS   10000
#define PAUSE_MS     20
#define PAUSE_MS_MAX 1000

static struct {
	pthread_mutex_t lock;  /* guards all below, and an exchange as a whole */
	pthread_cond_t opened; /* signalled when a channel is opened, for the watching thread */
	int sock;	       /* -1: not connected yet */
	int watched; /* the socket that the watching thread polls: sock, or an earlier one; or -1 */
	bool is_up;  /* sock is connected and verbatimd has the session; else sock is shut down */
	uint32_t seq;
	uint32_t answered;    /* seq of the last request whose answer came */
	atomic_uint number;   /* read without the lock, too */
	int64_t reconnect_ns; /* the end of the attempts to reach a verbatimd; 0: it is connected */
	bool is_told;	      /* it was reported that no verbatimd can be reached */

	/* What the next verbatimd needs to continue the session; nothing if id is 0. */
	uint32_t id;
	enum dial_which which;
	int store_fd, token_fd;
	struct list channels;
	atomic_bool is_watched, is_sought; /* read without the lock, too */
} session = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.opened = PTHREAD_COND_INITIALIZER,
	.sock = -1,
	.watched = -1,
	.which = DIAL_ANY,
	.store_fd = -1,
	.token_fd = -1,
	.channels = { &session.channels, &session.channels },
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

unsigned session_number(void)
{
	return session.number;
}

bool session_is_watched(void)
{
	return session.is_watched && !session.is_sought;
}

/*
 * ------------------------------------------------------------------------------------------
 * All below: caller holds the lock.
 */

static void stop_watching(void)
{
	if (session.watched != session.sock)
		close_fd(&session.watched);
	session.watched = -1;
}

/* Wakes the watching thread. */
static void hang_up(void)
{
	if (session.is_up)
		shutdown(session.sock, SHUT_RDWR);
	session.is_up = false;
}

/*
 * No verbatimd has the session any more. Threads that sleep for events of its channels wake and see
 * it.
 */
static void end_session(bool wakes)
{
	char byte = 0;

	hang_up();
	while (!list_empty(&session.channels)) {
		struct session_channel *ch =
			list_entry(session.channels.next, struct session_channel, entry);

		if (wakes)
			send(ch->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		list_del(&ch->entry);
	}
	close_fd(&session.store_fd);
	close_fd(&session.token_fd);
	session.id = 0;
	session.which = DIAL_ANY;
	session.reconnect_ns = 0;
	destroyed_clear();
	session.number++;
}

/*
 * ------------------------------------------------------------------------------------------
 * Fork: waits until another thread's exchange is over.
 */

static void before_fork(void)
{
	pthread_mutex_lock(&session.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&session.lock);
}

static void after_fork_in_child(void)
{
	/*
	 * The connection and the channels are the parent's: the child neither shuts down nor wakes
	 * them.
	 */
	session.is_up = false;
	stop_watching();
	close_fd(&session.sock);
	end_session(false);
	session.is_watched = session.is_sought = false;
	pthread_cond_init(&session.opened, NULL);
	pthread_mutex_unlock(&session.lock);
}

/* First in this library: prepare handlers run in reverse order, and this lock is the innermost. */
__attribute__((constructor(200))) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/*
 * ------------------------------------------------------------------------------------------
 * Connecting to verbatimd. Caller holds the lock.
 */

static uint32_t next_seq(void)
{
	return ++session.seq ? session.seq : ++session.seq;
}

static int make_store(char *why, size_t why_len)
{
	int fd = memfd_create("verbatim-cm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int rc;

	if (fd < 0)
		return -errno;
	rc = memory_file_extend(fd, CTL_CM_STORE_BYTES);
	if (!rc && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		rc = -errno;
	if (rc)
		close(fd);
	else
		session.store_fd = fd;
	if (rc == -EFBIG)
		snprintf(why, why_len,
			 "files may not be as large as the %d MiB, for the most part a hole, that "
			 "verbatimd needs; raise the limit (ulimit -f)",
			 CTL_CM_STORE_BYTES >> 20);
	return rc;
}

static bool is_gone(int rc)
{
	return rc == -ECONNRESET || rc == -EPIPE;
}

/*
 * Descriptors may wait, as others of this user are under way; a request alone is refused for want
 * of memory only, and then fails at once.
 */
static int send_request(const struct ctl_header *request, size_t len, const int *fds,
			unsigned fd_count)
{
	int64_t deadline_ns = fd_count ? deadline_in_ms(CONNECT_MS) : 0;

	return fdmsg_send_until(session.sock, request, len, fds, fd_count, deadline_ns);
}

/*
 * Hangs up if it fails, but not if nothing was sent although verbatimd is there
 * (fdmsg_is_delayed). Then no answer can come late.
 */
static int exchange(struct ctl_header *request, size_t len, const int *fds, unsigned fd_count,
		    struct fdmsg *reply)
{
	int rc = send_request(request, len, fds, fd_count);

	if (rc) {
		if (!fdmsg_is_delayed(rc))
			hang_up();
		return rc;
	}
	rc = fdmsg_wait(session.sock, deadline_in_ms(REQUEST_MS), reply);
	if (!rc && reply->body.header.seq != request->seq) {
		fdmsg_close_fds(reply);
		rc = -EPROTO;
	}
	/* A late answer would be taken for that of the next request. */
	if (rc)
		hang_up();
	return rc;
}

static int greet(char *why, size_t why_len)
{
	struct ctl_cm_hello hello = {
		.greeting = { .header = { .type = CTL_CM_HELLO, .seq = next_seq() },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.session = session.id,
	};
	int fds[2] = { -1, session.token_fd };
	const struct ctl_welcome *w;
	struct fdmsg m;
	int rc;

	fds[0] = session.store_fd;
	rc = send_request(&hello.greeting.header, sizeof(hello), fds, session.id ? 2 : 1);
	/* verbatimd may have refused and hung up before: its reason can still be read. */
	if (!rc || rc == -EPIPE)
		rc = fdmsg_wait(session.sock, deadline_in_ms(REQUEST_MS), &m);
	if (rc)
		return rc;
	w = &m.body.welcome;
	if (m.len != sizeof(*w) || w->greeting.header.type != CTL_WELCOME) {
		rc = -EPROTO;
	} else if (w->status > 0) {
		hello_explain(w, why, why_len);
		rc = -w->status;
	} else if (!session.id && m.fd_count != 1) {
		rc = m.fds_lost ? -EMFILE : -EPROTO;
	}
	if (!rc && !session.id) {
		session.id = w->slot;
		session.token_fd = fdmsg_take_fd(&m, 0);
	}
	fdmsg_close_fds(&m);
	return rc;
}

static int ask_now(struct ctl_cm_ask *ask, int fd)
{
	struct fdmsg m;
	int rc;

	ask->header.seq = next_seq();
	rc = exchange(&ask->header, sizeof(*ask), &fd, fd >= 0, &m);
	if (rc)
		return rc;
	fdmsg_close_fds(&m);
	if (m.len != sizeof(m.body.cm_reply) || m.body.header.type != CTL_CM_REPLY)
		return -EPROTO;
	return -m.body.cm_reply.status;
}

/* repeats: seq of the request that is repeated, or 0. */
static int return_channels(uint32_t repeats)
{
	struct list *m;
	struct ctl_cm_ask begin = {
		.header = { .type = CTL_CM_BEGIN },
		.value = session.answered,
		.flags = repeats,
	};

	list_for_each(m, &session.channels) {
		const struct session_channel *ch = list_entry(m, struct session_channel, entry);
		struct ctl_cm_ask ask = {
			.header = { .type = CTL_CM_RETURN_CHANNEL },
			.channel = ch->number,
		};
		int rc = ask_now(&ask, ch->fd);

		if (rc)
			return rc;
	}
	return ask_now(&begin, -1);
}

/* Ends the identifiers that the program destroyed in vain. */
static int end_destroyed(void)
{
	int rc = 0;
	uint32_t id;

	while (rc >= 0 && (id = destroyed_last()) != 0) {
		struct ctl_cm_ask ask = { .header = { .type = CTL_CM_DESTROY_ID }, .id = id };

		rc = ask_now(&ask, -1);
		if (rc == -ENOENT)
			rc = 0;
		if (!rc)
			destroyed_drop_last();
	}
	return rc;
}

/*
 * The old socket is shut down, which wakes the watching thread. That thread closes it: poll(2)
 * looks its descriptor up again when it wakes, and would sleep on if another file had the number by
 * then.
 */
static void replace_socket(int fresh)
{
	if (session.sock != session.watched)
		close_fd(&session.sock);
	session.sock = fresh;
}

/* How verbatimd refuses a session. */
static bool is_refusal(int rc)
{
	return rc == -ESTALE || rc == -EPERM || rc == -EINVAL || rc == -EEXIST || rc == -ENOENT;
}

/*
 * ENOENT and EAGAIN are answers about an object: there is none; it has no event. But the way to
 * verbatimd gives them, too: its program is missing, or there are as many processes as may be.
 */
static int as_no_answer(int rc)
{
	return rc == -ENOENT ? -ECONNREFUSED : rc == -EAGAIN ? -ETIMEDOUT : rc;
}

/* One try to find or start a verbatimd and to register there. *refused: it refuses the session. */
static int connect_once(int64_t deadline_ns, uint32_t repeats, bool *refused, char *why,
			size_t why_len)
{
	enum dial_which reached;
	int fresh;
	int rc;

	*refused = false;
	*why = 0;
	rc = session.store_fd < 0 ? make_store(why, why_len) : 0;
	if (!rc)
		rc = reach_daemon(session.which, deadline_ns, &fresh, &reached, why, why_len);
	if (rc)
		return as_no_answer(rc);
	replace_socket(fresh);
	session.is_up = true;
	*why = 0; /* of the tries before */
	rc = greet(why, why_len);
	if (!rc) {
		session.which = reached;
		rc = return_channels(repeats);
	}
	*refused = is_refusal(rc);
	if (rc)
		hang_up();
	/* To verbatimd, which may have had the store, a session that did not begin has ended. */
	if (!session.id)
		close_fd(&session.store_fd);
	return as_no_answer(rc);
}

/*
 * A session without channels is not continued: the next verbatimd would wait for it, and have
 * nothing of it. True: it has ended, so there is no request to repeat.
 */
static bool end_empty(void)
{
	if (!session.id || !list_empty(&session.channels))
		return false;
	end_session(false);
	return true;
}

static int connect_daemon(uint32_t repeats, char *why, size_t why_len)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	int64_t deadline_ns = deadline_in_ms(CONNECT_MS);
	int rc;

	/*
	 * One limit for the session, not one for each of a thousand identifiers that are destroyed.
	 */
	if (!session.reconnect_ns || !session.id)
		session.reconnect_ns = deadline_ns;
	for (;;) {
		bool returns = session.id != 0, refused;

		rc = connect_once(deadline_ns, repeats, &refused, why, why_len);
		if (!rc) {
			session.reconnect_ns = 0;
			session.is_told = false;
			return 0;
		}
		if (refused && returns) {
			end_session(true);
			session.reconnect_ns = deadline_ns;
			repeats = 0;
		} else if (!is_gone(rc) && !(rc == -ECONNREFUSED && session.which == DIAL_SYSTEM)) {
			return rc;
		}
		/*
		 * verbatimd has just ended, or the service manager is about to start the next one.
		 */
		if (!deadline_left_ms(session.reconnect_ns))
			return rc;
		nanosleep(&pause, NULL);
	}
}

static int connect_and_explain(uint32_t repeats)
{
	char why[256] = "";
	int rc = connect_daemon(repeats, why, sizeof(why));

	if (rc && !session.is_told)
		fprintf(stderr, "verbatim: connections cannot be managed: %s\n",
			*why ? why : strerror(-rc));
	session.is_told = rc && session.id;
	session.is_sought = session.is_told;
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * The watching thread reconnects when verbatimd ends: a program may sleep on its channels'
 * descriptors for events that only the next verbatimd raises.
 */

static bool has_hung_up(void)
{
	struct pollfd p = { .fd = session.sock, .events = POLLRDHUP };

	return poll(&p, 1, 0) == 1;
}

/* Without channels no thread waits for events. */
static void await_channel(void)
{
	while (!session.is_up && list_empty(&session.channels)) {
		end_empty();
		pthread_cond_wait(&session.opened, &session.lock);
	}
}

/* Holds the lock except while it sleeps. */
static void *watch(void *unused)
{
	int pause_ms = PAUSE_MS;

	pthread_mutex_lock(&session.lock);
	for (;;) {
		struct pollfd p = { .events = POLLRDHUP };
		char why[256];

		if (session.is_up && has_hung_up())
			hang_up();
		await_channel();
		if (!session.is_up && connect_daemon(0, why, sizeof(why))) {
			const struct timespec pause = { pause_ms / 1000,
							pause_ms % 1000 * 1000000 };

			session.is_sought = true;
			pthread_mutex_unlock(&session.lock);
			nanosleep(&pause, NULL);
			pause_ms = 2 * pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : PAUSE_MS_MAX;
			pthread_mutex_lock(&session.lock);
			continue;
		}
		session.is_sought = false;
		end_destroyed(); /* what is left of them the next request ends */
		pause_ms = PAUSE_MS;
		p.fd = session.watched = session.sock;
		pthread_mutex_unlock(&session.lock);
		poll(&p, 1, -1);
		pthread_mutex_lock(&session.lock);
		stop_watching();
	}
	return NULL;
}

/* If it cannot be started, only requests notice that verbatimd ended. */
static void start_watching(void)
{
	if (!session.is_watched)
		session.is_watched = !thread_start(watch, "verbatim-cm");
}

/*
 * ------------------------------------------------------------------------------------------
 * Requests.
 */

/* Caller holds the lock. */
static int ask_locked(struct ctl_header *request, size_t len, int fd, struct fdmsg *reply)
{
	int64_t deadline_ns = deadline_in_ms(CONNECT_MS);
	bool is_again = false;
	int rc;

	request->seq = next_seq();
	do {
		if (!session.is_up && end_empty())
			is_again = false;
		/* There is nothing to destroy. No next verbatimd gets the channel (channel.c). */
		if ((!session.id && request->type == CTL_CM_DESTROY_ID) ||
		    (!session.is_up && request->type == CTL_CM_DESTROY_CHANNEL))
			return -ENOENT;
		rc = session.is_up ? 0 : connect_and_explain(is_again ? request->seq : 0);
		if (rc)
			return rc;
		/* First: none of their events may be fetched. */
		rc = end_destroyed();
		if (rc)
			continue;
		rc = exchange(request, len, &fd, fd >= 0, reply);
		if (!rc) {
			fdmsg_close_fds(reply);
			session.answered = request->seq;
			return 0;
		}
		is_again = true;
	} while (is_gone(rc) && deadline_left_ms(deadline_ns));
	return rc;
}

/* Takes the lock. */
static int ask(struct ctl_header *request, size_t len, enum ctl_type type, size_t reply_len,
	       struct fdmsg *reply)
{
	int rc, cancel;

	/*
	 * Programs cancel threads that wait for events; a cancelled thread must not keep the lock.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&session.lock);
	rc = ask_locked(request, len, -1, reply);
	pthread_mutex_unlock(&session.lock);
	pthread_setcancelstate(cancel, NULL);
	if (!rc && (reply->body.header.type != type || reply->len != reply_len))
		rc = -EPROTO;
	return rc;
}

int session_ask(struct ctl_header *request, size_t len, struct ctl_cm_reply *reply)
{
	struct fdmsg m = { .len = 0 };
	int rc = ask(request, len, CTL_CM_REPLY, sizeof(*reply), &m);

	if (rc)
		return rc;
	*reply = m.body.cm_reply;
	return reply->status > 0 ? -reply->status : 0;
}

int session_open_channel(struct session_channel *ch, int fd)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_CREATE_CHANNEL } };
	struct fdmsg m = { .len = 0 };
	int rc, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&session.lock);
	rc = ask_locked(&request.header, sizeof(request), fd, &m);
	if (!rc && (m.body.header.type != CTL_CM_REPLY || m.len != sizeof(m.body.cm_reply)))
		rc = -EPROTO;
	if (!rc)
		rc = -m.body.cm_reply.status;
	if (!rc) {
		*ch = (struct session_channel){ .number = m.body.cm_reply.number, .fd = fd };
		list_add_tail(&session.channels, &ch->entry);
		start_watching();
		pthread_cond_signal(&session.opened);
	} else {
		end_empty();
	}
	pthread_mutex_unlock(&session.lock);
	pthread_setcancelstate(cancel, NULL);
	return rc;
}

void session_forget_channel(struct session_channel *ch)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&session.lock);
	if (ch->entry.next)
		list_del(&ch->entry);
	pthread_mutex_unlock(&session.lock);
	pthread_setcancelstate(cancel, NULL);
}

int session_ask_plain(const struct ctl_cm_ask *plain, uint32_t *number)
{
	struct ctl_cm_ask request = *plain;
	struct ctl_cm_reply reply;
	int rc = session_ask(&request.header, sizeof(request), &reply);

	if (!rc && number)
		*number = reply.number;
	return rc;
}

void session_destroy_id(uint32_t id)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_DESTROY_ID }, .id = id };
	struct fdmsg m = { .len = 0 };
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&session.lock);
	/*
	 * While the watching thread seeks it in vain, each try may take seconds, and programs
	 * destroy thousands.
	 */
	if (session.id && !session.is_up && session.is_sought && session.is_watched)
		destroyed_add(id);
	else if (ask_locked(&request.header, sizeof(request), -1, &m) && session.id)
		destroyed_add(id);
	pthread_mutex_unlock(&session.lock);
	pthread_setcancelstate(cancel, NULL);
}

int session_next_event(uint32_t channel, struct ctl_cm_event *out)
{
	struct ctl_cm_ask request = {
		.header = { .type = CTL_CM_GET_EVENT },
		.channel = channel,
	};
	struct fdmsg m = { .len = 0 };
	int rc = ask(&request.header, sizeof(request), CTL_CM_EVENT, sizeof(*out), &m);

	if (rc)
		return rc;
	*out = m.body.cm_event;
	return out->answer > 0 ? -out->answer : 0;
}
