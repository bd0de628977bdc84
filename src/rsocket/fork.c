/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/fork.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "rsocket/keepalive.h"
#include "rsocket/linger.h"
#include "rsocket/table.h"
#include "rsocket/wait.h"

static void in_child(void)
{
	table_after_fork();
	wait_forget();
	keepalive_forget();
	linger_forget();
}

static void watch(void)
{
	pthread_atfork(table_before_fork, table_still_parent, in_child);
}

void fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch);
}

int fork_close(int fd)
{
	if (!table_take_inherited(fd))
		return -EBADF;
	return close(fd) ? -errno : 0;
}
