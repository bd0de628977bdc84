#include "adapter/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "netdev/device.h"
#include "adapter/listening.h"
#include "adapter/path.h"
#include "adapter/progress_thread.h"
#include "base/arena.h"
#include "base/cause.h"
#include "base/host_address.h"
#include "base/lock.h"
#include "base/multicast.h"
#include "base/uncancelled.h"
#include "shm/retry.h"
#include "roce/roce.h"
#include "udp/udp.h"

#define PORTS_MAX 128
#define FAILURES  8
#define QUESTIONS 32
/* An answer of -EAGAIN: once more, for a while (ctl_port does likewise). */
#define ASK_AGAIN_NS 20000000ull
#define ASK_MAX_NS   2000000000ull
#define FORGET_NS 1000000000ull
/* How long an address that was there is taken to be there still. */
#define TRUST_NS 100000000ull
/* After so many looks in vain (a few milliseconds) a port is looked at now and then only. */
#define LOOKS_BEFORE_COLD 4096

/*
 * Entries are never moved, and those below ports_count are read without ports_lock. What was an
 * address's or a group's stays one; an address's entry does not change any more, that of a group that
 * was left is used again for another group: whoever finds a group holds ports_lock.
 *
 * Barrier PORT: `wire` is stored (release) after all that it takes to use it, and loaded (acquire) by
 * whoever receives, whom the receive lock alone does not order behind who opened the port.
 */
struct port {
	uint8_t gid[WIRE_GID_BYTES];
	uint32_t ifindex;
	bool is_group;
	bool watched;	  /* its socket is in `epoll`; guarded by watch_lock */
	uint32_t joins;	  /* of a group; guarded by ports_lock */
	bool closing;	  /* likewise */
	struct lock lock; /* who receives holds it, from before it reads `wire` */
	struct wire_port *_Atomic wire;
	_Atomic uint32_t in_vain;   /* looks since the last packet */
	_Atomic uint64_t trusted_ns; /* until then the address need not be looked for */
};

struct failure {
	uint8_t gid[WIRE_GID_BYTES];
	int error;
	uint64_t until_ns;
};

/* A port that verbatimd is asked for while nobody waits in ports_open. */
struct question {
	uint8_t gid[WIRE_GID_BYTES];
	uint32_t ifindex;
	char device[IBV_SYSFS_NAME_MAX];
	uint64_t wanted_ns; /* the progress thread has to ask, from then on; PORTS_NEVER: it has asked */
	uint64_t until_ns;  /* an answer of -EAGAIN later than that is a failure; 0: no question */
};

_Atomic uint32_t ports_count;

static struct lock ports_lock = LOCK_INITIALIZER;
static struct port ports[PORTS_MAX];
static struct failure failures[FAILURES] GUARDED_BY(ports_lock);
static uint32_t next_failure GUARDED_BY(ports_lock);
static struct question questions[QUESTIONS] GUARDED_BY(ports_lock);
static _Atomic uint64_t ask_ns = PORTS_NEVER; /* of them the first wanted_ns, or less; written under ports_lock */
static struct ctl_client *ctl;
static struct arena_port *shown;
static int epoll = -1;
/* Guards which sockets are in `epoll`: all, or none while `listening` is false. Innermost. */
static struct lock watch_lock = LOCK_INITIALIZER;
static bool listening GUARDED_BY(watch_lock) = true;
static bool datagrams GUARDED_BY(ports_lock); /* there may be UD QPs, whose GRHs have hop limits */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static bool is_v4(const uint8_t gid[WIRE_GID_BYTES])
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid);
}

static const char *print_gid(const uint8_t gid[WIRE_GID_BYTES], char text[INET6_ADDRSTRLEN])
{
	bool v4 = is_v4(gid);

	return inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + 12 : gid, text, INET6_ADDRSTRLEN);
}

int ports_init(struct ctl_client *client, void *arena)
{
	ctl = client;
	shown = arena_ports(arena);
	for (int i = 0; i < PORTS_MAX; i++)
		lock_init(&ports[i].lock);
	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll < 0 ? -errno : 0;
}

int ports_epoll(void)
{
	return epoll;
}

/*
 * An address has one socket, whatever interface has it at the moment, or which of several: two entries
 * would take a QP's packets from it side by side, in no order. Groups are joined on an interface.
 */
static bool is_on(const struct port *port, uint32_t ifindex)
{
	return port->ifindex == ifindex ||
	       (!port->is_group && !IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)port->gid));
}

/* A group, with ports_lock; or an address. */
static struct port *find(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, bool is_group)
{
	uint32_t count = atomic_load_explicit(&ports_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++)
		if (ports[i].is_group == is_group &&
		    atomic_load_explicit(&ports[i].wire, memory_order_acquire) &&
		    !memcmp(ports[i].gid, gid, WIRE_GID_BYTES) && is_on(&ports[i], ifindex))
			return &ports[i];
	return NULL;
}

static void show(const struct port *port)
{
	struct arena_port *entry = &shown[port - ports];
	char text[INET6_ADDRSTRLEN];

	if (port - ports >= ARENA_PORTS)
		return;
	if (!atomic_load_explicit(&port->wire, memory_order_relaxed)) {
		entry->address[0] = 0;
		return;
	}
	entry->ifindex = port->ifindex;
	entry->is_group = port->is_group;
	snprintf(entry->address, sizeof(entry->address), "%s", print_gid(port->gid, text));
}

static int watch(int how, const struct wire_port *wire, uint32_t events)
{
	struct epoll_event event = { .events = events };

	return epoll_ctl(epoll, how, udp_fd(wire), &event) ? -errno : 0;
}

/* False: it failed for some. */
static bool watch_all(bool on) REQUIRES(watch_lock)
{
	bool all = true;

	for (uint32_t i = 0; i < ports_count; i++) {
		struct wire_port *wire = atomic_load_explicit(&ports[i].wire, memory_order_acquire);

		if (wire && ports[i].watched != on &&
		    !watch(on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, wire, EPOLLIN))
			ports[i].watched = on;
		all &= !wire || ports[i].watched == on;
	}
	return all;
}

/*
 * Not just disarmed: what is in an epoll descriptor is called for each packet, at the expense of who
 * sends it.
 */
bool ports_listen(bool on)
{
	bool done;

	lock_acquire(&watch_lock);
	done = watch_all(on);
	if (!done)
		watch_all(false);
	listening = on && done;
	lock_release(&watch_lock);
	return done;
}

/* It is found by looks now: whoever is woken by what lies there already has to find it. */
static void watch_new(struct port *port, const struct wire_port *wire) REQUIRES(watch_lock)
{
	if (listening)
		watch(EPOLL_CTL_MOD, wire, EPOLLIN);
	else
		watch(EPOLL_CTL_DEL, wire, 0);
	port->watched = listening;
}

/* Takes the port over. 0, or -ENOSPC, or what epoll answers. */
static int add(struct wire_port *wire, const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex,
	       bool is_group) REQUIRES(ports_lock)
{
	uint32_t count = ports_count, i = 0;
	struct port *port;
	int error;

	while (i < count &&
	       !(is_group && ports[i].is_group && !ports[i].wire && !ports[i].closing))
		i++;
	if (i == PORTS_MAX)
		return -ENOSPC;
	lock_acquire(&watch_lock);
	error = watch(EPOLL_CTL_ADD, wire, 0);
	if (error) {
		lock_release(&watch_lock);
		return error;
	}
	port = &ports[i];
	memcpy(port->gid, gid, WIRE_GID_BYTES);
	port->ifindex = ifindex;
	if (i == count)
		port->is_group = is_group;
	port->joins = is_group;
	port->in_vain = LOOKS_BEFORE_COLD;
	port->trusted_ns = now_ns() + TRUST_NS;
	atomic_store_explicit(&port->wire, wire, memory_order_release); /* PORT */
	show(port);
	if (i == count)
		atomic_store_explicit(&ports_count, count + 1, memory_order_release);
	watch_new(port, wire);
	lock_release(&watch_lock);
	return 0;
}

static bool is_still_there(struct port *port)
{
	uint64_t now = now_ns();

	if (now < atomic_load_explicit(&port->trusted_ns, memory_order_relaxed))
		return true;
	if (host_has_address(port->gid, port->ifindex) == 0)
		return false; /* otherwise nothing is known against it */
	atomic_store_explicit(&port->trusted_ns, now + TRUST_NS, memory_order_relaxed);
	return true;
}

/* The error of a little while ago, or 0. */
static int failed_before(const uint8_t gid[WIRE_GID_BYTES]) REQUIRES(ports_lock)
{
	for (int i = 0; i < FAILURES; i++)
		if (!memcmp(failures[i].gid, gid, WIRE_GID_BYTES) &&
		    now_ns() < failures[i].until_ns)
			return failures[i].error;
	return 0;
}

static int fail(const uint8_t gid[WIRE_GID_BYTES], const char *device, int error, const char *why)
	REQUIRES(ports_lock)
{
	struct failure *failure = &failures[next_failure++ % FAILURES];
	char text[INET6_ADDRSTRLEN];

	memcpy(failure->gid, gid, WIRE_GID_BYTES);
	failure->error = error;
	failure->until_ns = now_ns() + FORGET_NS;
	cause_report(error == EADDRINUSE    ? CAUSE_PORT_TAKEN :
		     error == EADDRNOTAVAIL ? CAUSE_DEVICE_GONE :
					      CAUSE_PORT_FAILED,
		     0, "%s of %s: %s", print_gid(gid, text), device, *why ? why : strerror(error));
	return error;
}

/* Takes over what verbatimd answered: `error`, or the socket. 0 or an errno. */
static int open_port(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device, int error,
		     const char *why, int fd) REQUIRES(ports_lock)
{
	struct wire_port *wire;

	if (find(gid, ifindex, false)) { /* another thread was quicker */
		if (!error)
			close(fd);
		return 0;
	}
	if (error)
		return fail(gid, device, error, why);
	error = -udp_open(fd, gid, ifindex, &wire);
	if (error)
		return fail(gid, device, error, "");
	if (datagrams)
		udp_tell_hops(wire);
	/* Members on this host have it from shared memory, if there is any between them. */
	if (path_is_forced())
		udp_loop_multicast(wire);
	error = -add(wire, gid, ifindex, false);
	if (!error)
		return 0;
	udp_close(wire);
	return fail(gid, device, error, "");
}

static struct question *find_question(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex) REQUIRES(ports_lock)
{
	for (int i = 0; i < QUESTIONS; i++)
		if (questions[i].until_ns && questions[i].ifindex == ifindex &&
		    !memcmp(questions[i].gid, gid, WIRE_GID_BYTES))
			return &questions[i];
	return NULL;
}

static void want_at(struct question *question, uint64_t ns) REQUIRES(ports_lock)
{
	question->wanted_ns = ns;
	if (ns < ask_ns)
		ask_ns = ns;
}

/* True: the progress thread has to be woken. */
static bool want(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device) REQUIRES(ports_lock)
{
	uint64_t now = now_ns();
	struct question *question = find_question(gid, ifindex);

	/* The answer to one that is so old may have been lost. If all are under way, it is wanted later. */
	for (int i = 0; i < QUESTIONS && !question; i++)
		if (now >= questions[i].until_ns)
			question = &questions[i];
	if (!question || now < question->until_ns)
		return false;
	memcpy(question->gid, gid, WIRE_GID_BYTES);
	question->ifindex = ifindex;
	snprintf(question->device, sizeof(question->device), "%s", device);
	question->until_ns = now + ASK_MAX_NS;
	want_at(question, now);
	return true;
}

/* 0, an errno of now or of a little while ago, or EINPROGRESS: verbatimd has to be asked. */
static int look_up(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
		   struct wire_port **out)
{
	struct port *port = find(gid, ifindex, false);
	int error = 0;

	if (!port || !is_still_there(port)) {
		UNCANCELLED;

		lock_acquire(&ports_lock);
		error = failed_before(gid);
		port = find(gid, ifindex, false);
		if (!error && port && !is_still_there(port))
			error = fail(gid, device, EADDRNOTAVAIL, "");
		lock_release(&ports_lock);
	}
	if (!error && !port)
		return EINPROGRESS;
	if (!error)
		*out = port->wire;
	return error;
}

int ports_look_up(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
		  struct wire_port **port)
{
	int error = look_up(gid, ifindex, device, port);
	bool wake;

	if (error != EINPROGRESS)
		return error;
	lock_acquire(&ports_lock);
	wake = want(gid, ifindex, device);
	lock_release(&ports_lock);
	if (wake)
		progress_thread_wake();
	return EINPROGRESS;
}

int ports_open(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
	       struct wire_port **port)
{
	int error = look_up(gid, ifindex, device, port), fd = -1;
	char why[256] = "";

	if (error != EINPROGRESS)
		return error;

	UNCANCELLED;

	error = -ctl_port(ctl, gid, ifindex, &fd, why, sizeof(why));
	lock_acquire(&ports_lock);
	error = open_port(gid, ifindex, device, error, why, fd);
	lock_release(&ports_lock);
	if (!error)
		*port = find(gid, ifindex, false)->wire;
	return error;
}

/* A copy of one that is due, of which is noted that it is asked for; false: there is none. */
static bool take_wanted(uint64_t now, struct question *out)
{
	struct question *found = NULL;
	uint64_t next = PORTS_NEVER;

	lock_acquire(&ports_lock);
	for (int i = 0; i < QUESTIONS; i++) {
		struct question *question = &questions[i];

		if (!question->until_ns)
			continue;
		if (!found && question->wanted_ns <= now)
			found = question;
		else if (question->wanted_ns < next)
			next = question->wanted_ns;
	}
	if (found) {
		found->wanted_ns = PORTS_NEVER;
		*out = *found;
	}
	ask_ns = next;
	lock_release(&ports_lock);
	return found;
}

static void want_again(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, uint64_t ns)
{
	struct question *question;

	lock_acquire(&ports_lock);
	question = find_question(gid, ifindex);
	if (question)
		want_at(question, ns);
	lock_release(&ports_lock);
}

uint64_t ports_ask(uint64_t now)
{
	struct question question;

	while (ask_ns <= now && take_wanted(now, &question))
		if (ctl_port_ask(ctl, question.gid, question.ifindex))
			want_again(question.gid, question.ifindex, now + ASK_AGAIN_NS);
	return ask_ns;
}

void ports_on_answer(const struct ctl_port_answer *answer)
{
	struct question *question;

	lock_acquire(&ports_lock);
	question = find_question(answer->gid, answer->ifindex);
	if (question && answer->error == -EAGAIN && now_ns() < question->until_ns) {
		want_at(question, now_ns() + ASK_AGAIN_NS);
		lock_release(&ports_lock);
		return;
	}
	open_port(answer->gid, answer->ifindex, question ? question->device : "a device", -answer->error,
		  answer->why, answer->fd);
	if (question)
		question->until_ns = 0;
	lock_release(&ports_lock);
	shm_retry_on_peers();
}

void ports_ask_again(void)
{
	lock_acquire(&ports_lock);
	for (int i = 0; i < QUESTIONS; i++)
		if (questions[i].until_ns)
			want_at(&questions[i], 0);
	lock_release(&ports_lock);
}

/* Also those of other devices: their addresses may come to this one. Groups do so anyway. */
static void tell_hops(void)
{
	lock_acquire(&ports_lock);
	if (!datagrams) {
		datagrams = true;
		for (uint32_t i = 0; i < ports_count; i++)
			if (ports[i].wire)
				udp_tell_hops(ports[i].wire);
	}
	lock_release(&ports_lock);
}

/* verbatimd has not answered; so it is of no use to wait for its next answer, too. */
static bool is_silence(int error)
{
	return error == ETIMEDOUT || error == ENOTCONN;
}

/* As ports_look_up, though it failed just before: the port is there as soon as verbatimd answers. */
static void want_later(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device)
{
	bool wake;

	lock_acquire(&ports_lock);
	wake = !find(gid, ifindex, false) && want(gid, ifindex, device);
	lock_release(&ports_lock);
	if (wake)
		progress_thread_wake();
}

void ports_open_all(struct context *context)
{
	struct device *device = context->device;
	union ibv_gid gids[DEVICE_GIDS];
	struct wire_port *port;
	uint32_t ifindex;
	bool loopback, silent = false;

	lock_acquire(&device->lock);
	memcpy(gids, device->gid, sizeof(gids));
	ifindex = device->ifindex;
	loopback = device->loopback;
	lock_release(&device->lock);
	tell_hops();
	if (loopback && !path_is_forced())
		return;
	for (int i = 0; i < DEVICE_GIDS; i++)
		if (gids[i].global.subnet_prefix || gids[i].global.interface_id) {
			int error = silent ? ETIMEDOUT :
					     ports_open(gids[i].raw, ifindex, device->ib.name, &port);

			if (is_silence(error))
				want_later(gids[i].raw, ifindex, device->ib.name);
			silent |= is_silence(error);
		}
}

/* Where the group is joined; 0: nowhere, its members are all on this host. */
static uint32_t group_interface(struct context *context)
{
	struct device *device = context->device;
	uint32_t ifindex;

	lock_acquire(&device->lock);
	ifindex = device->loopback && !path_is_forced() ? 0 : device->ifindex;
	lock_release(&device->lock);
	return ifindex;
}

static int open_group(const uint8_t group[WIRE_GID_BYTES], uint32_t ifindex, const char *device)
	REQUIRES(ports_lock)
{
	char text[INET6_ADDRSTRLEN];
	struct wire_port *wire;
	int error = -udp_open_group(group, ifindex, &wire);

	if (!error) {
		error = -add(wire, group, ifindex, true);
		if (error)
			udp_close(wire);
	}
	if (error)
		cause_report(CAUSE_GROUP_REFUSED, 0, "%s on %s: %s", print_gid(group, text), device,
			     strerror(error));
	return error;
}

int ports_join(struct context *context, const union ibv_gid *spelled)
{
	uint32_t ifindex = group_interface(context);
	uint8_t group[WIRE_GID_BYTES];
	struct port *port;
	int error = 0;

	if (!ifindex)
		return 0;
	multicast_canonical(group, spelled->raw);
	lock_acquire(&ports_lock);
	port = find(group, ifindex, true);
	if (port)
		port->joins++;
	else
		error = open_group(group, ifindex, context->device->ib.name);
	lock_release(&ports_lock);
	return error;
}

/*
 * Without ports_lock: who receives may wait for the lock of a QP whose owner waits for ports_lock. The
 * entry is out of sight already, and `closing` keeps it from being used again.
 */
static void close_group(struct port *port, struct wire_port *wire)
{
	lock_acquire(&port->lock);
	lock_release(&port->lock); /* nobody receives from it any more */
	lock_acquire(&watch_lock);
	if (port->watched)
		watch(EPOLL_CTL_DEL, wire, 0);
	lock_release(&watch_lock);
	udp_close(wire);
	lock_acquire(&ports_lock);
	port->closing = false;
	lock_release(&ports_lock);
}

void ports_leave(struct context *context, const union ibv_gid *spelled)
{
	uint32_t ifindex = group_interface(context);
	struct wire_port *wire = NULL;
	uint8_t group[WIRE_GID_BYTES];
	struct port *port;

	if (!ifindex)
		return;
	multicast_canonical(group, spelled->raw);
	lock_acquire(&ports_lock);
	port = find(group, ifindex, true);
	if (port && --port->joins == 0) {
		wire = port->wire;
		port->closing = true;
		atomic_store_explicit(&port->wire, NULL, memory_order_release);
		show(port);
	}
	lock_release(&ports_lock);
	if (wire)
		close_group(port, wire);
}

/* Members on this host got it through shared memory. */
static void receive_for_group(const struct wire_arrival *arrival)
{
	union ibv_gid source;

	memcpy(source.raw, arrival->flow->remote, sizeof(source.raw));
	if (!path_is_local(&source))
		roce_receive(arrival);
}

static int receive(struct port *port, uint64_t now) REQUIRES(port->lock)
{
	struct wire_port *wire = atomic_load_explicit(&port->wire, memory_order_acquire); /* PORT */

	return wire ? udp_receive(wire, now, port->is_group ? receive_for_group : roce_receive) : 0;
}

static int look_at(struct port *port, uint64_t now)
{
	uint32_t in_vain;
	int got;

	if (!lock_try(&port->lock))
		return -EBUSY;
	got = receive(port, now);
	lock_release(&port->lock);
	in_vain = atomic_load_explicit(&port->in_vain, memory_order_relaxed);
	if (got > 0)
		atomic_store_explicit(&port->in_vain, 0, memory_order_relaxed);
	else if (in_vain < LOOKS_BEFORE_COLD)
		atomic_store_explicit(&port->in_vain, in_vain + 1, memory_order_relaxed);
	return got;
}

int ports_progress(uint64_t now, enum ports_look which)
{
	uint32_t count = atomic_load_explicit(&ports_count, memory_order_acquire);
	bool busy = false;
	int all = 0;

	for (uint32_t i = 0; i < count; i++) {
		int got;

		if (which == PORTS_BUSY_ONES &&
		    atomic_load_explicit(&ports[i].in_vain, memory_order_relaxed) >= LOOKS_BEFORE_COLD)
			continue;
		got = look_at(&ports[i], now);
		if (got > 0)
			all += got;
		busy |= got == -EBUSY;
	}
	if (raw_sockets_any())
		all += raw_sockets_progress();
	return all ? all : busy ? -EBUSY : 0;
}

#define CATCH_UP_LOOKS 16 /* and if packets come on and on, the rest is not of before */

bool ports_catch_up(uint64_t now)
{
	uint32_t count = atomic_load_explicit(&ports_count, memory_order_acquire);
	bool any = false;

	for (uint32_t i = 0; i < count; i++) {
		lock_acquire(&ports[i].lock);
		for (int j = 0; j < CATCH_UP_LOOKS && receive(&ports[i], now) > 0; j++)
			any = true;
		lock_release(&ports[i].lock);
	}
	return any;
}

/* Who sends expects an answer. */
static void warm_up(const struct wire_port *wire)
{
	uint32_t count = atomic_load_explicit(&ports_count, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (atomic_load_explicit(&ports[i].wire, memory_order_relaxed) == wire) {
			if (atomic_load_explicit(&ports[i].in_vain, memory_order_relaxed))
				atomic_store_explicit(&ports[i].in_vain, 0, memory_order_relaxed);
			return;
		}
}

enum wire_result ports_send(const struct wire_flow *flow, const struct wire_packet *packets,
			    unsigned count, unsigned *sent)
{
	enum wire_result result;

	warm_up(flow->port);
	listening_on_send_begin();
	result = udp_send(flow, packets, count, sent);
	listening_on_send_end();
	return result;
}

bool ports_sends_trains(const struct wire_flow *flow)
{
	return udp_sends_trains(flow);
}

/* Descriptors are closed, memberships are the parent's: its sockets live on. */
void ports_reset_after_fork(void) NO_LOCK_CHECK
{
	lock_init(&ports_lock);
	lock_init(&watch_lock);
	listening = true;
	for (int i = 0; i < PORTS_MAX; i++) {
		struct wire_port *wire = ports[i].wire;

		lock_init(&ports[i].lock);
		ports[i].watched = false;
		ports[i].wire = NULL;
		if (wire)
			udp_close(wire);
	}
	ports_count = 0;
	datagrams = false;
	memset(failures, 0, sizeof(failures));
	memset(questions, 0, sizeof(questions));
	ask_ns = PORTS_NEVER;
	if (epoll >= 0)
		close(epoll);
	epoll = -1;
	ctl = NULL;
	shown = NULL;
}
