#include "adapter/frames.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "netdev/device.h"
#include "adapter/ports.h"
#include "base/cause.h"
#include "base/lock.h"
#include "object/context.h"
#include "object/cq.h"
#include "raw/raw.h"

/* A place is read without the lock: a number that is no QP's any more finds none. */
struct place {
	_Atomic uint32_t qpn; /* 0: free */
	int fd;
};

_Atomic uint32_t frames_count;

static struct lock places_lock = LOCK_INITIALIZER; /* innermost; guards who has which place */
static struct place places[FRAMES_QPS_MAX];

static void want_room(int fd, bool wanted)
{
	struct epoll_event event = { .events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.fd = fd };

	epoll_ctl(ports_epoll(), EPOLL_CTL_MOD, fd, &event);
}

static void forget(int fd)
{
	lock_acquire(&places_lock);
	for (uint32_t i = 0; i < FRAMES_QPS_MAX; i++)
		if (places[i].qpn && places[i].fd == fd)
			atomic_store(&places[i].qpn, 0);
	lock_release(&places_lock);
	epoll_ctl(ports_epoll(), EPOLL_CTL_DEL, fd, NULL);
}

void frames_init(void)
{
	static const struct raw_env env = { .want_room = want_room, .forget = forget };

	raw_init(&env);
}

static bool take_place(uint32_t qpn, int fd)
{
	uint32_t i;

	lock_acquire(&places_lock);
	for (i = 0; i < FRAMES_QPS_MAX && places[i].qpn; i++)
		;
	if (i < FRAMES_QPS_MAX) {
		places[i].fd = fd;
		atomic_store_explicit(&places[i].qpn, qpn, memory_order_release);
		if (i >= frames_count)
			atomic_store_explicit(&frames_count, i + 1, memory_order_release);
	}
	lock_release(&places_lock);
	return i < FRAMES_QPS_MAX;
}

int frames_open(struct qp *qp)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct device *device = qp->context->device;
	uint32_t ifindex;
	int error;

	lock_acquire(&device->lock);
	ifindex = device->ifindex;
	lock_release(&device->lock);
	error = raw_open(qp, ifindex);
	if (error)
		return -error;
	event.data.fd = raw_fd(qp);
	if (!take_place(qp->ib.qp_num, event.data.fd)) {
		cause_report(CAUSE_LIMIT_EXCEEDED, qp->ib.qp_num, "%u RAW_PACKET QPs", FRAMES_QPS_MAX);
		return ENOMEM;
	}
	return epoll_ctl(ports_epoll(), EPOLL_CTL_ADD, event.data.fd, &event) < 0 ? errno : 0;
}

int frames_progress(void) NO_LOCK_CHECK /* qp_find_locked locked it */
{
	uint32_t count = atomic_load_explicit(&frames_count, memory_order_acquire);
	int got = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t qpn = atomic_load_explicit(&places[i].qpn, memory_order_acquire);
		struct qp *qp = qpn ? qp_find_locked(qpn) : NULL;

		if (!qp)
			continue;
		if (qp->type == IBV_QPT_RAW_PACKET)
			got += raw_progress(qp);
		cq_give_events();
		qp_unlock(qp);
	}
	return got;
}

/* The sockets are the parent's; its QPs are dead here. */
void frames_reset_after_fork(void) NO_LOCK_CHECK
{
	lock_init(&places_lock);
	for (uint32_t i = 0; i < frames_count; i++) {
		if (places[i].qpn)
			close(places[i].fd);
		places[i].qpn = 0;
	}
	frames_count = 0;
}
