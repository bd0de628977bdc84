/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/exchange.h"

#include <errno.h>

#include "base/uncancelled.h"
#include "ctl/answer.h"
#include "ctl/client_types.h"
#include "ctl/control.h"
#include "ctl/deadline.h"
#include "ctl/fdmsg.h"
#include "ctl/kept_ports.h"
#include "ctl/notices.h"

#define TURN_MS 100 /* for an answer of a daemon that hung while a thread waited for its turn */

static int exchange(struct ctl_client *c, struct ctl_header *request, size_t len, int64_t since_ns,
		    struct fdmsg *reply)
{
	bool hung = c->hung_ns > since_ns;
	int64_t deadline_ns = deadline_in_ms(hung ? TURN_MS : CTL_REQUEST_MS);
	int64_t latest_ns = deadline_in_ms(CTL_CONNECT_MS);
	int rc;

	if (c->down || c->reconnecting)
		return -ENOTCONN;
	request->seq = control_next_seq(c);
	do {
		rc = kept_ports_return(c);
		if (!rc)
			rc = fdmsg_send(c->sock, request, len, NULL, 0);
	} while (fdmsg_is_delayed(rc) && fdmsg_wait_to_send(c->sock, rc, deadline_ns));
	if (fdmsg_is_delayed(rc))
		return -ETIMEDOUT;
	while (!rc) {
		rc = answer_wait(c->sock, deadline_ns, latest_ns, reply);
		if (rc)
			break;
		if (reply->len >= sizeof(*request) && reply->body.header.seq == request->seq)
			return 0;
		if (!notices_queue(c, reply) && !notices_is_late_reply(reply))
			rc = -EPROTO;
		fdmsg_close_fds(reply);
	}
	if (rc == -ETIMEDOUT) {
		c->hung_ns = deadline_now_ns();
		return rc;
	}
	control_lose(c);
	return -ENOTCONN;
}

int exchange_request(struct ctl_client *c, struct ctl_header *request, size_t len,
		     enum ctl_type reply_type, size_t reply_len, struct fdmsg *reply)
{
	UNCANCELLED;
	/* Threads that wait for their turn do not each wait for a daemon that hangs. */
	int64_t since_ns = deadline_now_ns();
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = exchange(c, request, len, since_ns, reply);
	if (!rc && (reply->body.header.type != reply_type || reply->len != reply_len)) {
		fdmsg_close_fds(reply);
		control_lose(c);
		rc = -ENOTCONN;
	}
	control_release(c);
	return rc;
}

int exchange_send(struct ctl_client *c, struct ctl_header *request, size_t len)
{
	int rc;

	if (pthread_mutex_trylock(&c->lock))
		return -EAGAIN;
	rc = kept_ports_return(c);
	if (!rc)
		rc = control_send(c, request, len, -1);
	control_release(c);
	return fdmsg_is_delayed(rc) ? -EAGAIN : rc;
}
