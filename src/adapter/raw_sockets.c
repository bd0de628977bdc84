/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/raw_sockets.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "adapter/port_table.h"
#include "base/cause.h"
#include "base/lock.h"
#include "netdev/device.h"
#include "object/context.h"
#include "object/cq.h"
#include "object/qp_table.h"
#include "raw/raw.h"

/* Read without the lock: the QP table does not find the number of a destroyed QP. */
struct entry {
	_Atomic uint32_t qpn; /* 0: free */
	int fd;
};

_Atomic uint32_t raw_sockets_count;

static struct lock entries_lock = LOCK_INITIALIZER; /* innermost; guards the entries */
static struct entry entries[RAW_SOCKETS_MAX];

static void want_room(int fd, bool wanted)
{
	struct epoll_event event = { .events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.fd = fd };

	epoll_ctl(port_table_epoll(), EPOLL_CTL_MOD, fd, &event);
}

static void forget(int fd)
{
	lock_acquire(&entries_lock);
	for (uint32_t i = 0; i < RAW_SOCKETS_MAX; i++)
		if (entries[i].qpn && entries[i].fd == fd)
			atomic_store(&entries[i].qpn, 0);
	lock_release(&entries_lock);
	epoll_ctl(port_table_epoll(), EPOLL_CTL_DEL, fd, NULL);
}

void raw_sockets_init(void)
{
	static const struct raw_env env = { .want_room = want_room, .forget = forget };

	raw_init(&env);
}

static bool add_entry(uint32_t qpn, int fd)
{
	uint32_t i;

	lock_acquire(&entries_lock);
	for (i = 0; i < RAW_SOCKETS_MAX && entries[i].qpn; i++)
		;
	if (i < RAW_SOCKETS_MAX) {
		entries[i].fd = fd;
		atomic_store_explicit(&entries[i].qpn, qpn, memory_order_release);
		if (i >= raw_sockets_count)
			atomic_store_explicit(&raw_sockets_count, i + 1, memory_order_release);
	}
	lock_release(&entries_lock);
	return i < RAW_SOCKETS_MAX;
}

int raw_sockets_open(struct qp *qp)
{
	struct epoll_event event = { .events = EPOLLIN };
	int error = raw_open(qp, device_ifindex(qp->context->device));

	if (error)
		return -error;
	event.data.fd = raw_fd(qp);
	if (!add_entry(qp->ib.qp_num, event.data.fd)) {
		cause_report(CAUSE_LIMIT_EXCEEDED, qp->ib.qp_num, "%u RAW_PACKET QPs",
			     RAW_SOCKETS_MAX);
		return ENOMEM;
	}
	return epoll_ctl(port_table_epoll(), EPOLL_CTL_ADD, event.data.fd, &event) < 0 ? errno : 0;
}

int raw_sockets_progress(void)
{
	uint32_t count = atomic_load_explicit(&raw_sockets_count, memory_order_acquire);
	int got = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t qpn = atomic_load_explicit(&entries[i].qpn, memory_order_acquire);
		struct qp *qp;

		if (!qpn || !qp_find_locked(qpn, &qp))
			continue;
		if (qp->type == IBV_QPT_RAW_PACKET)
			got += raw_progress(qp);
		cq_give_events();
		qp_unlock(qp);
	}
	return got;
}

/* The sockets are the parent's, and its QPs are dead in the child. */
void raw_sockets_reset_after_fork(void)
{
	lock_acquire_in_child(&entries_lock);
	for (uint32_t i = 0; i < raw_sockets_count; i++) {
		if (entries[i].qpn)
			close(entries[i].fd);
		entries[i].qpn = 0;
	}
	raw_sockets_count = 0;
	lock_release(&entries_lock);
}
