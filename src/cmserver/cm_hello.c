/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_hello.h"

#include <errno.h>

#include "cmserver/cm.h"
#include "cmserver/cm_return.h"
#include "daemon/hello.h"

void cm_hello_on_hello(struct client *c, struct fdmsg *m)
{
	uint32_t session = m->body.cm_hello.session;
	int rc = m->body.cm_hello.greeting.magic == CTL_MAGIC ? 0 : -EPROTO;
	int token_fd = -1;

	if (!rc && (m->fd_count == 2) != (session != 0))
		rc = -EPROTO;
	if (!rc && session)
		rc = cm_return_admit(c, session, m->fds[1]);
	if (!rc)
		rc = hello_watch_death(c);
	if (!rc)
		rc = cm_client_create(c, m->fds[0], session);
	if (!rc)
		fdmsg_take_fd(m, 0);
	if (!rc && !session)
		rc = cm_return_make_token(c->cm, &token_fd);
	if (rc) {
		hello_refuse(c, m->body.header.seq, -rc);
		return;
	}
	client_set_role(c, CLIENT_CM_EARLY);
	hello_welcome(c, m->body.header.seq, c->cm->session, token_fd);
}
