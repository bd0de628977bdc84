/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/iwcm.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/transport.h"
#include "base/uncancelled.h"
#include "cm/address.h"
#include "cm/iwcm_thread.h"
#include "cm/refusal.h"
#include "iwarp/handover.h"
#include "tcp/tcp.h"

#define BACKLOG_DEFAULT 128 /* ends that say nothing take a descriptor each */
#define OFFER_DEPTH_MAX 255

bool iwcm_is_on(void)
{
	return transport_is_iwarp() && verbatim_iwarp_attach;
}

/*
 * ------------------------------------------------------------------------------------------
 * Addresses.
 */

static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int prepare(int fd, const struct id *id)
{
	bool is_v6 = id->local.family == AF_INET6;
	int rc = tcp_prepare(fd);

	/* What is left of an earlier listener's connections does not matter. */
	if (!rc)
		rc = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (!rc && is_v6)
		rc = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY,
				(id->bind_flags & CTL_CM_AFONLY) != 0);
	if (!rc && id->tos)
		rc = set_option(fd, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_TCLASS : IP_TOS,
				id->tos);
	return rc;
}

/* *out: bound, and *local has its port. 0 or -errno. With iwcm.lock: see iwcm_take. */
static int make_socket(const struct id *id, struct ctl_cm_address *local, int *out)
{
	struct sockaddr_storage name;
	socklen_t len;
	/* not socket(): librspreload would make it an rsocket, whose identifier needs iwcm.lock */
	int fd = (int)syscall(SYS_socket, local->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			      0);
	int rc = fd < 0 ? -errno : prepare(fd, id);

	if (!rc) {
		address_to_sockaddr(local, (struct sockaddr *)&name);
		len = address_length((struct sockaddr *)&name);
		if (bind(fd, (struct sockaddr *)&name, len) < 0 ||
		    getsockname(fd, (struct sockaddr *)&name, &len) < 0)
			rc = -errno;
	}
	if (rc) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	local->port = local->family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
						: ((struct sockaddr_in *)&name)->sin_port;
	*out = fd;
	return 0;
}

int iwcm_bind(struct id *id)
{
	UNCANCELLED; /* what follows holds iwcm.lock over system calls */
	struct iwcm *iw;
	int fd, rc;

	if (id->base.qp_type != IBV_QPT_RC)
		return refusal(-EOPNOTSUPP, CAUSE_UNSUPPORTED, "iWARP has no QPs but RC ones");
	if (!id->local.family)
		id->local.family = AF_INET;
	iw = iwcm_create();
	if (!iw)
		return -ENOMEM;
	pthread_mutex_lock(&iwcm.lock);
	rc = make_socket(id, &id->local, &fd);
	if (!rc) {
		iwcm_take(iw, fd);
		iw->local = id->local;
		iw->number = id->number;
		id->iwcm = iw;
	} else {
		iwcm_put(iw);
	}
	pthread_mutex_unlock(&iwcm.lock);
	return rc;
}

/* Before there is a connection that could not be encrypted. */
static int check_tls(void)
{
	char why[TLS_WHY_BYTES];
	int rc = tls_is_on() ? tls_check(why) : 0;

	return rc ? refusal(rc, CAUSE_IWARP_TLS, "%s", why) : 0;
}

int iwcm_listen(struct id *id, int backlog)
{
	UNCANCELLED;
	struct iwcm *iw = id->iwcm;
	int rc = check_tls();

	pthread_mutex_lock(&iwcm.lock);
	if (!rc)
		rc = iwcm_thread_start();
	iw->backlog = backlog > 0 ? (unsigned)backlog : BACKLOG_DEFAULT;
	/* first, as the kernel takes connections from listen(2) on */
	if (!rc)
		rc = iwcm_watch(iw, EPOLLIN);
	if (!rc && listen(iw->fd, (int)iw->backlog) < 0) {
		rc = -errno;
		iwcm_watch(iw, 0);
	}
	if (!rc)
		iw->state = IWCM_LISTENING;
	pthread_mutex_unlock(&iwcm.lock);
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * Connections.
 */

static bool wants_crcs, wants_markers;

static bool is_asked_for(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && strcmp(value, "1") == 0;
}

/* Once: the thread asks, too, and the program may change its environment. */
static void read_environment(void)
{
	wants_crcs = is_asked_for("VERBATIM_IWARP_CRC");
	wants_markers = is_asked_for("VERBATIM_IWARP_MARKERS");
}

/*
 * As siw: without CRCs and markers unless the user wants them, and without the initiator's first
 * FPDU of RFC 6581. siw refuses the former by default; the latter, which it never asks for itself,
 * has crashed its kernel. A responder still does what an initiator asks for.
 */
static struct mpa_offer offer_of(uint8_t responder_resources, uint8_t initiator_depth)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return (struct mpa_offer){
		.revision = 2,
		.crc = wants_crcs,
		.markers = wants_markers,
		.extensions = true,
		.ird = responder_resources,
		.ord = initiator_depth,
	};
}

void iwcm_answer(struct iwcm *iw)
{
	struct mpa_offer offer = offer_of(OFFER_DEPTH_MAX, OFFER_DEPTH_MAX);

	mpa_startup_answer(&iw->startup, &offer);
	iw->state = IWCM_ANSWERING;
}

int iwcm_connect(struct id *id, const struct iwcm_param *param)
{
	UNCANCELLED;
	struct mpa_offer offer = offer_of(param->responder_resources, param->initiator_depth);
	struct same_host_place own;
	struct iwcm *iw = id->iwcm;
	int rc = check_tls();

	offer.same_host = iwcm_may_share(param->qpn, &id->remote, &own);

	pthread_mutex_lock(&iwcm.lock);
	if (!rc)
		rc = iw && iw->state == IWCM_BOUND ? iwcm_thread_start() : -EINVAL;
	if (!rc)
		rc = mpa_startup_call(&iw->startup, &offer, param->private_data,
				      param->private_bytes);
	if (!rc) {
		iw->qpn = param->qpn;
		iw->remote = id->remote;
		rc = iwcm_begin_connect(iw);
	}
	if (!rc)
		iwcm_thread_wake();
	pthread_mutex_unlock(&iwcm.lock);
	return rc;
}

/* Sends the whole reply; it is short, and the first of the stream. 0 or -errno. */
static int send_reply(struct iwcm *iw)
{
	struct mpa_startup *s = &iw->startup;
	const struct iovec piece = { s->out, s->out_bytes };

	return tcp_send(iw->fd, &piece, 1, false) == (ssize_t)s->out_bytes ? 0 : -ECONNRESET;
}

/* NULL: not, whatever an rdma_accept that failed had offered. */
static void offer_place(struct iwcm *iw, const struct same_host_place *own)
{
	uint8_t bytes[SAME_HOST_PLACE_BYTES];

	if (own)
		same_host_put_place(bytes, own);
	mpa_startup_offer_place(&iw->startup, own ? bytes : NULL);
}

void iwcm_adopt(struct iwcm *asked, struct id *id)
{
	pthread_mutex_lock(&iwcm.lock);
	asked->number = id->number;
	id->iwcm = asked;
	pthread_mutex_unlock(&iwcm.lock);
}

int iwcm_accept(struct id *id, const struct iwcm_param *param)
{
	UNCANCELLED;
	struct iwcm *iw = id->iwcm;
	struct same_host_place own;
	/* Before the peer takes the connection for established; the program may still reject it. */
	int rc = -verbatim_iwarp_check(param->qpn);
	bool may_share = !rc && iw && mpa_startup_asks_place(&iw->startup) &&
			 iwcm_may_share(param->qpn, &iw->remote, &own);

	pthread_mutex_lock(&iwcm.lock);
	if (!rc && (!iw || iw->state != IWCM_ASKED))
		rc = -EINVAL;
	if (!rc)
		offer_place(iw, may_share ? &own : NULL);
	if (!rc)
		rc = mpa_startup_accept(&iw->startup, param->responder_resources,
					param->initiator_depth, param->private_data,
					param->private_bytes);
	if (!rc) {
		iw->qpn = param->qpn;
		rc = send_reply(iw);
		if (rc)
			iwcm_close(iw);
		else if (iw->startup.agreed.same_host)
			rc = iwcm_hold(iw);
		else
			rc = iwcm_hand_over(iw);
	}
	pthread_mutex_unlock(&iwcm.lock);
	return rc;
}

int iwcm_reject(struct id *id, const void *private_data, size_t bytes)
{
	UNCANCELLED;
	struct iwcm *iw = id->iwcm;
	int rc = -EINVAL;

	pthread_mutex_lock(&iwcm.lock);
	if (iw && iw->state == IWCM_ASKED)
		rc = mpa_startup_reject(&iw->startup, private_data, bytes);
	if (!rc) {
		rc = send_reply(iw);
		iwcm_close(iw);
	}
	pthread_mutex_unlock(&iwcm.lock);
	return rc;
}

int iwcm_disconnect(struct id *id)
{
	UNCANCELLED;
	struct iwcm *iw = id->iwcm;
	bool is_established;
	int rc = -EINVAL;

	pthread_mutex_lock(&iwcm.lock);
	is_established = iw && iw->state == IWCM_ESTABLISHED;
	if (is_established) {
		rc = 0;
	} else if (iw && iw->state == IWCM_CLOSED && iw->qpn) {
		rc = list_empty(&iw->events); /* the peer was faster */
	} else if (iw && (iw->state == IWCM_PLACING || iw->state == IWCM_HANDING)) {
		iw->wants_end = true; /* what was posted is done first */
		rc = 0;
	}
	pthread_mutex_unlock(&iwcm.lock);
	if (is_established)
		verbatim_iwarp_disconnect(iw->qpn, iw, VERBATIM_IWARP_END);
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * The end.
 */

/* Connections that no program knows end with their listener. With the lock. */
static void close_waiting(struct iwcm *listener)
{
	struct list *pos, *after;

	list_for_each_safe(pos, after, &iwcm.all) {
		struct iwcm *iw = list_entry(pos, struct iwcm, link);

		if (iw->listener != listener || iw->state == IWCM_ASKED)
			continue; /* iwcm_put drops those of events */
		iw->listener = NULL;
		iwcm_close(iw);
		iwcm_put(iw);
	}
}

void iwcm_drop(struct iwcm *iw)
{
	UNCANCELLED;
	bool is_established;

	pthread_mutex_lock(&iwcm.lock);
	iw->number = 0;
	while (iw->state == IWCM_HANDING)
		pthread_cond_wait(&iwcm.handed, &iwcm.lock);
	is_established = iw->state == IWCM_ESTABLISHED;
	if (is_established)
		iw->users++;
	else {
		if (iw->state == IWCM_LISTENING)
			close_waiting(iw);
		if (iw->state == IWCM_PLACING)
			iwcm_abandon(iw);
		else
			iwcm_close(iw);
	}
	iwcm_put(iw);
	pthread_mutex_unlock(&iwcm.lock);
	if (!is_established)
		return;
	verbatim_iwarp_disconnect(iw->qpn, iw, VERBATIM_IWARP_ABORT);
	pthread_mutex_lock(&iwcm.lock);
	iwcm_put(iw);
	pthread_mutex_unlock(&iwcm.lock);
}

void iwcm_end(struct id *id)
{
	UNCANCELLED;
	struct iwcm *iw;

	/* A thread may be fetching an event. */
	pthread_mutex_lock(&iwcm.lock);
	iw = id->iwcm;
	id->iwcm = NULL;
	pthread_mutex_unlock(&iwcm.lock);
	if (iw)
		iwcm_drop(iw);
}
