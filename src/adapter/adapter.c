/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "adapter/contexts.h"
#include "adapter/group.h"
#include "adapter/notices.h"
#include "adapter/path.h"
#include "adapter/peers.h"
#include "adapter/port_open.h"
#include "adapter/ports.h"
#include "adapter/progress.h"
#include "adapter/progress_thread.h"
#include "adapter/raw_sockets.h"
#include "adapter/sources.h"
#include "adapter/timers.h"
#include "adapter/wakeup.h"
#include "adapter/wire_path.h"
#include "base/cause.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/fork_free.h"
#include "base/lock.h"
#include "base/memory_file.h"
#include "base/sleeper.h"
#include "iwarp/iwarp.h"
#include "memory/bounce.h"
#include "memory/hazard.h"
#include "memory/migrate.h"
#include "memory/oneself.h"
#include "netdev/device.h"
#include "netdev/neighbour.h"
#include "netdev/watch.h"
#include "object/live_object.h"
#include "object/mr.h"
#include "object/mw.h"
#include "object/pd.h"
#include "object/qp_table.h"
#include "object/xrcd.h"
#include "raw/raw.h"
#include "roce/roce.h"
#include "shm/imported.h"
#include "shm/backoff.h"
#include "shm/doorbell.h"
#include "shm/shm.h"
#include "shm/xcopy.h"
#include "tcp/control.h"
#include "tcp/streams.h"

static struct lock adapter_lock = LOCK_INITIALIZER;
/* Written once under adapter_lock, before `running`. */
static bool running;
/* For links; and for ports and groups: the same one, or with VERBATIM_SOCKET_DIR another. */
static struct ctl_client *ctl, *local;
static void *arena;
static int arena_fd = -1, wake_fd = -1, heap_fd = -1;
static uint64_t heap_bytes;
static uint32_t slot;
static uint64_t cookie; /* a peer that can read it reaches our memory */

static void read_comm(char comm[16])
{
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, comm, 15);

	if (fd >= 0)
		close(fd);
	comm[n > 0 ? n : 0] = 0;
	comm[strcspn(comm, "\n")] = 0;
}

/* Peers get the descriptors, but may not seal the files against our writes. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int make_arena(void)
{
	int rc;

	arena_fd = memfd_create("verbatim-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (arena_fd < 0)
		return -errno;
	rc = memory_file_extend(arena_fd, ARENA_BYTES);
	/* Causes are in the arena, so there is none. */
	if (rc == -EFBIG)
		fprintf(stderr,
			"verbatim: files may not be as large as the %d MiB of this process's "
			"arena; raise the limit (ulimit -f)\n",
			ARENA_BYTES >> 20);
	if (rc)
		return rc;
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd, 0);
	if (arena == MAP_FAILED) {
		arena = NULL;
		return -errno;
	}
	/* From here on no process can shrink it under a reader, or map it writable. */
	if (fcntl(arena_fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE) &&
	    fcntl(arena_fd, F_ADD_SEALS, SEALS))
		return -errno;
	return 0;
}

/* Sparse: takes memory only for pages that have migrated (memory/migrate.h). */
static int make_heap(void)
{
	struct rlimit limit;

	heap_bytes = MIGRATE_HEAP_BYTES;
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < heap_bytes)
		heap_bytes = limit.rlim_cur & ~4095ull; /* beyond it the kernel sends SIGXFSZ */
	heap_fd = memfd_create("verbatim-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (heap_fd < 0 || ftruncate(heap_fd, (off_t)heap_bytes) ||
	    fcntl(heap_fd, F_ADD_SEALS, SEALS))
		return -errno;
	return 0;
}

static void fill_header(void)
{
	struct arena_header *header = arena_header(arena);

	if (getrandom(&cookie, sizeof(cookie), 0) != sizeof(cookie))
		cookie = clock_realtime_ns() ^ (uintptr_t)&cookie;
	header->version = ARENA_VERSION;
	header->pid = (uint32_t)getpid();
	header->uid = getuid();
	header->start_ns = clock_realtime_ns();
	header->cookie = cookie;
	header->cookie_addr = (uintptr_t)&cookie;
	header->need_wakeup = true;
	read_comm(header->comm);
	header->magic = ARENA_MAGIC;
}

/* A child of a fork does not undo this, so it would share what is left with its parent. */
static void undo(void)
{
	peers_fini();
	doorbell_unmap(doorbell_own);
	doorbell_reset_after_fork();
	sleeper_reset_after_fork();
	watch_reset_after_fork();
	tcp_control_reset_after_fork();
	ports_reset_after_fork();
	migrate_fini();
	cause_init(NULL);
	counter_init(NULL);
	if (local && local != ctl)
		ctl_close(local);
	if (ctl)
		ctl_close(ctl);
	if (arena)
		munmap(arena, ARENA_BYTES);
	if (arena_fd >= 0)
		close(arena_fd);
	if (wake_fd >= 0)
		close(wake_fd);
	if (heap_fd >= 0)
		close(heap_fd);
	ctl = local = NULL;
	arena = NULL;
	arena_fd = wake_fd = heap_fd = -1;
}

static int connect_clients(char *why, size_t why_len)
{
	const char *comm = arena_header(arena)->comm;
	int error = ctl_connect_shared(&ctl, arena_fd, wake_fd, heap_fd, comm, why, why_len);

	if (error)
		return error;
	if (ctl)
		return ctl_join(&local, ctl, why, why_len);
	error = ctl_connect(&ctl, arena_fd, wake_fd, heap_fd, comm, why, why_len);
	local = ctl;
	return error;
}

static int connect_daemon(void)
{
	char why[256] = "";
	int error = connect_clients(why, sizeof(why));

	if (!error) {
		slot = ctl_slot(ctl);
		arena_header(arena)->slot = slot;
		return 0;
	}
	cause_report(error == -ENOSPC || error == -EDQUOT ? CAUSE_SLOTS_EXHAUSTED
		     : error == -EPERM || error == -EPROTONOSUPPORT || error == -EXDEV ||
				     error == -EOPNOTSUPP
			     ? CAUSE_DAEMON_REFUSED
			     : CAUSE_DAEMON_MISSING,
		     0, "%s", why);
	/* Without a daemon no device works, so this is printed even without VERBATIM_EXPLAIN. */
	fprintf(stderr, "verbatim: %s\n", why);
	return error;
}

#define MEMBERS_MET 64 /* as many as a datagram reaches through shared memory */

static int find_group_members(const union ibv_gid *gid, uint32_t *slots, int max, bool *asked)
{
	*asked = false;
	return path_is_forced() ? 0 : group_members(gid, slots, max, asked);
}

/* 0: the kernel has no random numbers yet. */
static uint32_t random_number(void)
{
	uint32_t number = 0;

	return getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number) ? number : 0;
}

static const struct roce_env surroundings = {
	.now = clock_now_ns,
	.send = ports_send,
	.sends_gso = ports_sends_gso,
	.resolve = wire_path_resolve,
	.answer = wire_path_answer,
	.deadline = wakeup_on_deadline,
	.group_visit = group_visit,
};

static int make_tables(void)
{
	struct shm_env env = {
		.find_link = peers_look_up,
		.group_members = find_group_members,
		.group_visit = group_visit,
		.peer_is_local = path_peer_may_be_local,
		.datagrams_to_wire = wire_path_send_datagrams,
		.kick = wakeup_kick,
		.deadline = wakeup_on_retry_deadline,
		.slot = slot,
	};
	int error;

	lock_prepare();
	hazard_init(arena, slot);
	hazard_set_visitor(peers_visit_arenas);
	doorbell_init(heap_fd, arena, slot);
	sleeper_init(doorbell_own ? &doorbell_own->sleeper : NULL, wakeup_send);
	xcopy_allow();
	migrate_init(heap_fd, heap_bytes, wakeup_send);
	error = key_table_init(arena);
	if (!error)
		error = qp_table_init(arena, slot);
	if (error)
		return error;
	qp_table_turn(random_number());
	contexts_init(arena);
	shm_init(&env);
	imported_init();
	group_init(local);
	path_init(local == ctl ? NULL : peers_look_up, arena_header(arena));
	raw_sockets_init();
	roce_init(&surroundings);
	notices_take_ports_from(local == ctl ? NULL : local);
	error = ports_init(local, arena);
	if (!error)
		error = path_init_rnic(cookie);
	if (error)
		return error;
	return peers_init(ctl, slot, arena, wake_fd);
}

/*
 * The child of a fork has no progress thread and must not disturb its parent. A private copy
 * replaces each shared mapping that the child's objects point to. The descriptors are closed. The
 * next device that the child opens makes an adapter of its own. Nothing here allocates or frees
 * (base/fork_free.h).
 */
static void in_child(void)
{
	migrate_in_child();
	contexts_reset_after_fork();
	lock_init(&adapter_lock);
	device_reset_after_fork();
	live_object_reset_after_fork();
	pd_reset_after_fork();
	qp_table_reset_after_fork(); /* a child that had no adapter has its parent's QPs */
	oneself_reset_after_fork();
	bounce_reset_after_fork(); /* a start that failed has left them */
	if (!running) {
		doorbell_reset_after_fork(); /* another thread may have been about to start */
		return;
	}
	running = progress_running = false;
	fork_free_begin();
	/* NOLINTNEXTLINE(bugprone-unused-return-value): a fork handler cannot report a failure */
	mmap(arena, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, arena_fd, 0);
	sources_reset_after_fork();
	group_reset_after_fork();
	hazard_reset_after_fork();
	sleeper_reset_after_fork();
	key_table_reset_after_fork();
	mw_reset_after_fork();
	xrc_reset_after_fork();
	cause_reset_after_fork();
	counter_reset_after_fork();
	if (local != ctl)
		ctl_close_in_child(local);
	ctl_close_in_child(ctl);
	progress_thread_reset_after_fork();
	close(arena_fd);
	close(wake_fd);
	close(heap_fd);
	arena_fd = wake_fd = heap_fd = -1;
	arena = NULL;
	ctl = local = NULL;
	fork_free_end();
}

/* Prepare handlers run in reverse order: the streams' runs when migrate_before_fork has waited. */
static void watch_forks(void)
{
	streams_watch_forks();
	pthread_atfork(migrate_before_fork, migrate_in_parent, in_child);
}

static int start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int error;

	pthread_once(&once, watch_forks);
	fork_free_kept();
	error = make_arena();
	if (error)
		return error;
	error = make_heap();
	if (error)
		return error;
	fill_header();
	cause_init(arena);
	counter_init(arena);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return -errno;
	error = connect_daemon();
	if (error)
		return error;
	error = make_tables();
	if (error)
		return error;
	return progress_thread_start(ctl, arena_header(arena), wake_fd);
}

int adapter_start(void)
{
	int error = 0;

	lock_acquire(&adapter_lock);
	if (!running) {
		error = start();
		running = !error;
		progress_running = running;
		if (error)
			undo();
	}
	lock_release(&adapter_lock);
	return -error;
}

void adapter_add_context(struct context *context)
{
	contexts_add(context);
}

void adapter_remove_context(struct context *context)
{
	contexts_remove(context);
}

bool adapter_is_foreign(const struct context *context)
{
	return contexts_is_foreign(context);
}

uint32_t adapter_slot(void)
{
	return slot;
}

uint64_t adapter_cookie(void)
{
	return cookie;
}

const struct qp_path *adapter_path(const struct context *context, enum ibv_qp_type type)
{
	if (context->iwarp && type == IBV_QPT_RC)
		return &iwarp_path;
	if (context->iwarp) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	    type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV)
		return &shm_path;
	if (type == IBV_QPT_RAW_PACKET)
		return &raw_path;
	errno = EOPNOTSUPP;
	return NULL;
}

int adapter_import_region(struct pd *pd, uint32_t pd_number, uint32_t handle, struct mr **mr)
{
	const struct context *context = context_of(pd->ib.context);
	struct link *link = peers_find(context->home_slot);
	int error = EINVAL;

	if (link && link->peer->cookie == context->home_cookie)
		error = -imported_import(link, pd_number, handle, pd, mr);
	else
		cause_report(CAUSE_PEER_DIED, 0, "it had made the context");
	if (link)
		link_put(link);
	return error;
}

bool adapter_meet(const struct same_host_place *peer)
{
	uint32_t their_slot = peer->qpn >> ARENA_QP_BITS;
	struct link *link = peers_find(their_slot);
	bool met = link && link->alive && link->peer->cookie == peer->cookie;

	if (link)
		link_put(link);
	if (!met)
		cause_note(CAUSE_IWARP_BY_STREAM, 0,
			   "no process that this one can link with is its peer's in slot %u",
			   their_slot);
	return met;
}

int adapter_open_raw_socket(struct qp *qp)
{
	return raw_sockets_open(qp);
}

int adapter_attach_flow(struct qp *qp, struct flow *flow)
{
	return -raw_add_flow(qp, flow);
}

void adapter_detach_flow(struct qp *qp, struct flow *flow)
{
	raw_remove_flow(qp, flow);
}

int adapter_find_mac(struct context *context, const union ibv_gid *gid, uint8_t mac[6])
{
	return neighbour_find(device_ifindex(context->device), gid, mac);
}

int adapter_stays_local(const union ibv_gid *gid)
{
	return path_is_local(gid);
}

#define MEET_LOOK_NS 100000

/* True: verbatimd has answered for all of them. */
static bool is_resolved(const uint32_t *slots, int count)
{
	bool all = true;

	for (int i = 0; i < count; i++) {
		bool asked;
		struct link *link = peers_look_up(slots[i], &asked);

		if (link)
			link_put(link);
		all &= !asked;
	}
	return all;
}

/* False: not after `until`. */
static bool pause_until(uint64_t until)
{
	nanosleep(&(struct timespec){ .tv_nsec = MEET_LOOK_NS }, NULL);
	return clock_now_ns() < until;
}

/* False: verbatimd has not answered in that time. */
static bool resolve_peer(uint32_t peer)
{
	uint64_t until = clock_now_ns() + BACKOFF_PEER_NS;

	peers_forget_miss(peer);
	while (!is_resolved(&peer, 1))
		if (!pause_until(until))
			return false;
	return true;
}

/*
 * 1: the peer is of another network namespace, and shares VERBATIM_SOCKET_DIR. -ETIMEDOUT: it is
 * not known, so the QP does not move to RTR: with a guess its two ends might take different paths.
 */
static int meets_in_directory(struct qp *qp, const struct ibv_qp_attr *attr)
{
	const struct ibv_global_route *grh = &attr->ah_attr.grh;
	uint32_t peer = attr->dest_qp_num >> ARENA_QP_BITS;
	union ibv_gid own;

	if (!path_shares() || !device_gid(qp->context->device, grh->sgid_index, &own))
		return 0;
	if (!resolve_peer(peer)) {
		cause_report(CAUSE_DAEMON_MISSING, qp->ib.qp_num,
			     "that of VERBATIM_SOCKET_DIR does not say whether the process in slot "
			     "%u shares it",
			     peer);
		return -ETIMEDOUT;
	}
	return path_is_shared(&own, &grh->dgid, attr->dest_qp_num);
}

void adapter_prepare(struct qp *qp, const struct ibv_qp_attr *attr, int attr_mask)
{
	int meets;

	if (qp->context->iwarp)
		return;
	if (qp->type == IBV_QPT_UD) {
		port_open_all(qp->context);
		return;
	}
	if (qp->type == IBV_QPT_RAW_PACKET || !(attr_mask & IBV_QP_AV) ||
	    !(attr_mask & IBV_QP_DEST_QPN))
		return;
	atomic_store_explicit(&qp->peer_shares, 0, memory_order_relaxed);
	if (path_may_be_local(&attr->ah_attr.grh.dgid)) {
		resolve_peer(attr->dest_qp_num >> ARENA_QP_BITS);
		return;
	}
	meets = meets_in_directory(qp, attr);
	atomic_store_explicit(&qp->peer_shares, meets, memory_order_relaxed);
	if (!meets)
		wire_path_open(qp->context, &attr->ah_attr);
}

void adapter_resolve_group(const union ibv_gid *group)
{
	uint64_t until = clock_now_ns() + BACKOFF_PEER_NS;
	uint32_t slots[MEMBERS_MET];
	bool asked;
	int count;

	do
		count = find_group_members(group, slots, MEMBERS_MET, &asked);
	while ((asked || !is_resolved(slots, count)) && pause_until(until));
}

int adapter_mcast_attach(struct qp *qp, const union ibv_gid *gid)
{
	struct device *device = qp->context->device;
	struct group_member member = { .qpn = qp->ib.qp_num, .gid = *gid, .device = device };
	uint32_t ifindex;
	bool is_new;
	int error = group_attach(&member, &is_new);

	if (!is_new)
		return error;
	ifindex = ports_group_interface(device);
	error = ports_join(device, ifindex, gid);
	if (error) {
		group_detach(qp->ib.qp_num, gid, &member.ifindex);
		return error;
	}
	if (!group_move(&member, ifindex)) /* another thread has detached it */
		ports_leave(ifindex, gid);
	atomic_fetch_add(&qp->attachments, 1);
	return 0;
}

int adapter_mcast_detach(struct qp *qp, const union ibv_gid *gid)
{
	uint32_t ifindex;
	int error = group_detach(qp->ib.qp_num, gid, &ifindex);

	if (error)
		return error;
	ports_leave(ifindex, gid);
	atomic_fetch_sub(&qp->attachments, 1);
	return 0;
}
