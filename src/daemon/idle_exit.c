/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/idle_exit.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_MS 1000

static int64_t read_ms(void)
{
	const char *text = secure_getenv("VERBATIMD_LINGER_MS");
	char *end;
	long ms;

	if (!text || !*text)
		return LINGER_MS;
	errno = 0;
	ms = strtol(text, &end, 10);
	return errno || *end || ms < 0 ? LINGER_MS : ms;
}

/*
 * A client that connects at this very moment finds its connection reset, and starts the next
 * daemon: ctl/client.c tries again.
 */
static void on_end(struct loop_timer *timer)
{
	container_of(timer, struct idle_exit, timer)->over = true;
}

void idle_exit_init(struct idle_exit *l, struct loop *loop, bool stays)
{
	*l = (struct idle_exit){ .loop = loop, .ms = read_ms(), .stays = stays };
	loop_timer_init(&l->timer, on_end);
}

void idle_exit_await_first(struct idle_exit *l)
{
	if (!l->stays)
		loop_timer_arm(l->loop, &l->timer, l->ms > FIRST_MS ? l->ms : FIRST_MS);
}

void idle_exit_hold(struct idle_exit *l)
{
	l->users++;
	loop_timer_disarm(&l->timer);
}

void idle_exit_release(struct idle_exit *l)
{
	if (!--l->users && !l->stays)
		loop_timer_arm(l->loop, &l->timer, l->ms);
}
