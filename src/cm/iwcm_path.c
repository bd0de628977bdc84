/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which path a connection takes once MPA's start-up is over: its stream, or shared memory, if both
 * ends are processes of one host (iwarp/same_host.h).
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "cm/address.h"
#include "cm/iwcm_thread.h"
#include "iwarp/handover.h"
#include "tcp/tcp.h"

#define PLACE_NS 10000000000ull /* for the initiator's frame; its verbatimd may be away */

bool iwcm_may_share(uint32_t qpn, const struct ctl_cm_address *remote, struct same_host_place *own)
{
	union ibv_gid gid;

	if (!verbatim_iwarp_share)
		return false; /* another libibverbs */
	address_gid(remote, &gid);
	return !verbatim_iwarp_here(qpn, gid.raw, own);
}

/*
 * ------------------------------------------------------------------------------------------
 * The responder, from its reply to the initiator's frame.
 */

void iwcm_abandon(struct iwcm *iw)
{
	uint32_t qpn = iw->qpn, hold = iw->hold;

	iwcm_close(iw);
	iw->users++;
	pthread_mutex_unlock(&iwcm.lock);
	verbatim_iwarp_abandon(qpn, hold);
	pthread_mutex_lock(&iwcm.lock);
	iwcm_put(iw);
}

int iwcm_hold(struct iwcm *iw)
{
	uint32_t hold = 0;
	int rc;

	iw->state = IWCM_HANDING;
	iw->users++;
	pthread_mutex_unlock(&iwcm.lock);
	rc = -verbatim_iwarp_hold(iw->qpn, &hold);
	pthread_mutex_lock(&iwcm.lock);
	iw->hold = hold;
	if (!rc)
		rc = iwcm_watch(iw, EPOLLIN);
	if (rc && iw->wants_end) {
		iwcm_fail_place(iw, rc);
	} else if (rc) {
		iwcm_abandon(iw);
	} else {
		iw->state = IWCM_PLACING;
		iw->due_ns = clock_now_ns() + PLACE_NS;
		iwcm_thread_wake();
	}
	pthread_cond_broadcast(&iwcm.handed);
	iwcm_put(iw);
	return rc;
}

void iwcm_fail_place(struct iwcm *iw, int rc)
{
	struct iwcm_event event = { .kind = CTL_CM_CONNECT_ERROR, .status = rc };

	if (iw->wants_end)
		event = (struct iwcm_event){ .kind = CTL_CM_DISCONNECTED };
	iwcm_post(iw, &event);
	iwcm_abandon(iw);
}

/* 1: all of it is here; 0: more is to come; or -errno. Reads nothing of what follows. */
static int read_frame(struct iwcm *iw)
{
	const struct iovec piece = { iw->frame + iw->frame_bytes,
				     sizeof(iw->frame) - iw->frame_bytes };
	ssize_t got = tcp_receive(iw->fd, &piece, 1);

	if (got == TCP_WOULD_BLOCK)
		return 0;
	if (got < 0)
		return -ECONNRESET;
	iw->frame_bytes = (uint8_t)(iw->frame_bytes + got);
	if (iw->frame_bytes < sizeof(iw->frame))
		return 0;
	return same_host_get_frame(iw->frame, &iw->is_shared, &iw->peer) ? 1 : -EPROTO;
}

void iwcm_on_place(struct iwcm *iw)
{
	int rc = read_frame(iw);

	if (rc > 0)
		iwcm_hand_over(iw);
	else if (rc < 0)
		iwcm_fail_place(iw, rc);
}

/*
 * ------------------------------------------------------------------------------------------
 * The handover. In IWCM_HANDING, without the lock.
 */

static int attach_initiator(struct iwcm *iw, int fd, void (*ended)(void *arg))
{
	uint8_t frame[SAME_HOST_FRAME_BYTES];
	const struct iovec piece = { frame, sizeof(frame) };
	struct verbatim_iwarp_shared shared = {
		.agreed = &iw->startup.agreed,
		.first = frame,
		.first_bytes = sizeof(frame),
	};
	struct same_host_place own;
	bool is_shared;

	same_host_get_place(iw->startup.place, &shared.peer);
	is_shared =
		iwcm_may_share(iw->qpn, &iw->remote, &own) && !verbatim_iwarp_meet(&shared.peer);
	same_host_put_frame(frame, is_shared ? &own : NULL);
	if (is_shared)
		return -verbatim_iwarp_share(iw->qpn, fd, &shared, ended, iw);
	if (tcp_send(fd, &piece, 1, false) != (ssize_t)sizeof(frame))
		return -ECONNRESET;
	return -verbatim_iwarp_attach(iw->qpn, fd, &iw->startup.agreed, 0, ended, iw);
}

static int attach_responder(struct iwcm *iw, int fd, void (*ended)(void *arg))
{
	const uint8_t ready = SAME_HOST_READY;
	const struct verbatim_iwarp_shared shared = {
		.agreed = &iw->startup.agreed,
		.hold = iw->hold,
		.peer = iw->peer,
		.first = &ready,
		.first_bytes = sizeof(ready),
	};
	int error;

	if (!iw->is_shared)
		error = verbatim_iwarp_attach(iw->qpn, fd, shared.agreed, iw->hold, ended, iw);
	else
		error = verbatim_iwarp_meet(&shared.peer);
	if (iw->is_shared && !error)
		error = verbatim_iwarp_share(iw->qpn, fd, &shared, ended, iw);
	if (error)
		verbatim_iwarp_abandon(iw->qpn, iw->hold);
	return -error;
}

int iwcm_attach(struct iwcm *iw, int fd, void (*ended)(void *arg))
{
	const struct mpa_agreed *agreed = &iw->startup.agreed;

	if (!agreed->same_host)
		return -verbatim_iwarp_attach(iw->qpn, fd, agreed, 0, ended, iw);
	return agreed->initiator ? attach_initiator(iw, fd, ended)
				 : attach_responder(iw, fd, ended);
}
