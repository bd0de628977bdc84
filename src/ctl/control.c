/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/control.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "ctl/fdmsg.h"

uint32_t control_next_seq(struct ctl_client *c)
{
	if (++c->seq == CONTROL_ASKED)
		c->seq = 1;
	return c->seq;
}

void control_lose(struct ctl_client *c)
{
	c->down = true;
	shutdown(c->sock, SHUT_RDWR);
}

int control_send(struct ctl_client *c, struct ctl_header *request, size_t len, int fd)
{
	int rc;

	if (c->down || c->reconnecting)
		return -ENOTCONN;
	request->seq = control_next_seq(c) | CONTROL_ASKED;
	rc = fdmsg_send(c->sock, request, len, &fd, fd >= 0);
	return rc && !fdmsg_is_delayed(rc) ? -ENOTCONN : rc;
}

void control_release(struct ctl_client *c)
{
	bool tell = c->notices != NULL;

	pthread_mutex_unlock(&c->lock);
	if (tell)
		eventfd_write(c->wake_fd, 1);
}
