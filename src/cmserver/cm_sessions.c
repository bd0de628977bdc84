/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "daemon/daemon.h"
#include "daemon/directory.h"
#include "daemon/token.h"

#define TRIES	 64
#define AWAY_MAX 16384

int cm_sessions_make_token(const struct cm_sessions *s, uint32_t *session, int *token_fd)
{
	int fd = token_make_socket();

	if (fd < 0)
		return -errno;
	for (int i = 0; i < TRIES; i++) {
		uint32_t number;

		if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number) || !number)
			continue;
		if (directory_bind(s->daemon, fd, sockname_of_session, number))
			continue;
		*session = number;
		*token_fd = fd;
		return 0;
	}
	close(fd);
	return -EAGAIN;
}

void cm_sessions_forget(const struct cm_sessions *s, uint32_t session)
{
	struct sockname name;

	sockname_of_session(&s->daemon->space, session, &name);
	if (session)
		sockname_remove(&name);
}

bool cm_sessions_is_held(const struct cm_sessions *s, uint32_t session)
{
	struct sockname name;
	int fd = token_make_socket();
	bool held;

	sockname_of_session(&s->daemon->space, session, &name);
	held = fd < 0 || token_is_held(fd, &name);
	if (fd >= 0)
		close(fd);
	return held;
}

/* Whether the session's process has ended; then removes the name. */
static bool has_ended(const struct cm_sessions *s, int fd, uint32_t session)
{
	struct sockname name;

	sockname_of_session(&s->daemon->space, session, &name);
	if (token_is_held(fd, &name))
		return false;
	sockname_remove(&name);
	return true;
}

/* The place of the first that is not before it. */
static unsigned place_of(const struct cm_sessions *s, uint32_t session)
{
	unsigned low = 0, high = s->away_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (s->away[middle].session < session)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_at(const struct cm_sessions *s, unsigned i, uint32_t session)
{
	return i < s->away_count && s->away[i].session == session;
}

static void add(struct cm_sessions *s, struct cm_away away)
{
	unsigned i = place_of(s, away.session);
	struct cm_away *larger = NULL;

	/* Without a directory any process can make such names: hence the limit. */
	if (s->away_count < AWAY_MAX)
		larger = realloc(s->away, (s->away_count + 1) * sizeof(*larger));
	if (!larger) {
		s->is_incomplete = true;
		return;
	}
	s->away = larger;
	memmove(&larger[i + 1], &larger[i], (s->away_count - i) * sizeof(*larger));
	larger[i] = away;
	s->away_count++;
	s->expected_count += !away.has_hung_up;
}

void cm_sessions_remember(struct cm_sessions *s, uint32_t session, uid_t uid)
{
	add(s, (struct cm_away){ .session = session, .has_hung_up = true, .uid = uid });
}

bool cm_sessions_has_room(const struct cm_sessions *s, uid_t uid)
{
	unsigned mine = 0;

	for (unsigned i = 0; i < s->away_count; i++)
		mine += s->away[i].has_hung_up && s->away[i].uid == uid;
	return s->away_count < AWAY_MAX &&
	       (s->daemon->scope == DAEMON_OF_USER || mine < CM_SESSIONS_HUNG_UP_MAX);
}

static void expect(uint32_t session, void *arg)
{
	struct cm_sessions *s = arg;
	int fd = token_make_socket();
	/* Sessions that ended before may have left their names. */
	bool ended = fd >= 0 && has_ended(s, fd, session);

	if (fd >= 0)
		close(fd);
	if (!ended)
		add(s, (struct cm_away){ .session = session });
}

void cm_sessions_init(struct cm_sessions *s, struct daemon *d)
{
	*s = (struct cm_sessions){ .daemon = d };
	sockname_each_session(&d->space, expect, s);
	s->is_over = !s->expected_count;
	if (s->is_over)
		return;
	s->over_ns = deadline_in_ms(CM_SESSIONS_WAIT_MS);
	s->expects_ns = deadline_in_ms(CM_SESSIONS_LATE_MS);
}

void cm_sessions_fini(struct cm_sessions *s)
{
	free(s->away);
}

bool cm_sessions_is_away(const struct cm_sessions *s, uint32_t session)
{
	return is_at(s, place_of(s, session), session);
}

bool cm_sessions_may_return(const struct cm_sessions *s, uint32_t session)
{
	return s->is_incomplete || cm_sessions_is_away(s, session);
}

bool cm_sessions_expects(const struct cm_sessions *s)
{
	return !s->is_over || (s->expected_count && deadline_now_ns() < s->expects_ns);
}

void cm_sessions_on_return(struct cm_sessions *s, uint32_t session)
{
	unsigned i = place_of(s, session), after = i;

	while (is_at(s, after, session))
		s->expected_count -= !s->away[after++].has_hung_up;
	if (after > i)
		memmove(&s->away[i], &s->away[after], (s->away_count - after) * sizeof(*s->away));
	s->away_count -= after - i;
}

bool cm_sessions_drop_ended(struct cm_sessions *s)
{
	unsigned before = s->away_count, left = 0;
	int fd = token_make_socket();

	if (fd < 0)
		return false;
	for (unsigned i = 0; i < before; i++) {
		if (has_ended(s, fd, s->away[i].session))
			s->expected_count -= !s->away[i].has_hung_up;
		else
			s->away[left++] = s->away[i];
	}
	s->away_count = left;
	s->is_incomplete = s->is_incomplete && left;
	close(fd);
	return left < before;
}

void cm_sessions_end_wait(struct cm_sessions *s)
{
	s->is_over = true;
	s->over_ns = 0;
}
