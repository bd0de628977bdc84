/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/port_open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "adapter/path.h"
#include "adapter/port_table.h"
#include "adapter/wakeup.h"
#include "base/cause.h"
#include "base/clock.h"
#include "base/gid.h"
#include "base/host_address.h"
#include "base/uncancelled.h"
#include "netdev/device.h"
#include "shm/retry.h"
#include "udp/udp.h"

#define FAILURES  8
#define QUESTIONS 32
/* After the answer -EAGAIN the question is repeated for a while, as ctl_port does. */
#define ASK_AGAIN_NS 20000000ull
#define ASK_MAX_NS   2000000000ull
#define FORGET_NS    1000000000ull

struct failure {
	uint8_t gid[WIRE_GID_BYTES];
	int error;
	uint64_t until_ns;
};

/* A port that the progress thread asks verbatimd for. */
struct question {
	uint8_t gid[WIRE_GID_BYTES];
	uint32_t ifindex;
	char device[IBV_SYSFS_NAME_MAX];
	uint64_t wanted_ns; /* when the progress thread asks; PORT_OPEN_NEVER: it has asked */
	uint64_t until_ns;  /* from then on -EAGAIN is a failure; 0: no question */
};

static struct failure failures[FAILURES] GUARDED_BY(port_table_lock);
static uint32_t next_failure GUARDED_BY(port_table_lock);
static struct question questions[QUESTIONS] GUARDED_BY(port_table_lock);
/* No later than the first wanted_ns; written under port_table_lock. */
static _Atomic uint64_t ask_ns = PORT_OPEN_NEVER;
/* There may be UD QPs, whose GRHs have hop limits. */
static bool datagrams GUARDED_BY(port_table_lock);
static struct ctl_client *ctl;

void port_open_init(struct ctl_client *client)
{
	ctl = client;
}

static bool is_still_there(struct port *port)
{
	uint64_t now = clock_now_ns();

	if (now < atomic_load_explicit(&port->trusted_ns, memory_order_relaxed))
		return true;
	if (host_holds_address(port->gid, port->ifindex) == 0)
		return false; /* if the kernel cannot say, the address counts as present */
	atomic_store_explicit(&port->trusted_ns, now + PORT_TRUST_NS, memory_order_relaxed);
	return true;
}

/* The remembered error, or 0. */
static int failed_before(const uint8_t gid[WIRE_GID_BYTES]) REQUIRES(port_table_lock)
{
	for (int i = 0; i < FAILURES; i++)
		if (!memcmp(failures[i].gid, gid, WIRE_GID_BYTES) &&
		    clock_now_ns() < failures[i].until_ns)
			return failures[i].error;
	return 0;
}

static int fail(const uint8_t gid[WIRE_GID_BYTES], const char *device, int error, const char *why)
	REQUIRES(port_table_lock)
{
	struct failure *failure = &failures[next_failure++ % FAILURES];
	char text[GID_TEXT_BYTES];

	memcpy(failure->gid, gid, WIRE_GID_BYTES);
	failure->error = error;
	failure->until_ns = clock_now_ns() + FORGET_NS;
	cause_report(error == EADDRINUSE      ? CAUSE_PORT_TAKEN
		     : error == EADDRNOTAVAIL ? CAUSE_DEVICE_GONE
					      : CAUSE_PORT_FAILED,
		     0, "%s of %s: %s", gid_text(gid, text), device, *why ? why : strerror(error));
	return error;
}

/* Takes over what verbatimd answered: `error`, or the socket. 0 or an errno. */
static int open_port(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
		     int error, const char *why, int fd) REQUIRES(port_table_lock)
{
	struct wire_port *wire;

	if (port_table_find(gid, ifindex, false)) { /* another thread was quicker */
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
		udp_enable_hop_limits(wire);
	/*
	 * Members on this host get datagrams through shared memory, except with VERBATIM_PATH=wire.
	 */
	if (path_is_forced())
		udp_loop_multicast(wire);
	error = -port_table_add(wire, gid, ifindex, false, device);
	if (!error)
		return 0;
	udp_close(wire);
	return fail(gid, device, error, "");
}

static struct question *find_question(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex)
	REQUIRES(port_table_lock)
{
	for (int i = 0; i < QUESTIONS; i++)
		if (questions[i].until_ns && questions[i].ifindex == ifindex &&
		    !memcmp(questions[i].gid, gid, WIRE_GID_BYTES))
			return &questions[i];
	return NULL;
}

static void want_at(struct question *question, uint64_t ns) REQUIRES(port_table_lock)
{
	question->wanted_ns = ns;
	if (ns < ask_ns)
		ask_ns = ns;
}

/* True: the progress thread has to be woken. */
static bool want(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device)
	REQUIRES(port_table_lock)
{
	uint64_t now = clock_now_ns();
	struct question *question = find_question(gid, ifindex);

	/*
	 * The answer to a question that old may be lost. If all places are in use, a later call
	 * asks.
	 */
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

/* 0, an errno (of now or remembered), or EINPROGRESS: verbatimd has to be asked. */
static int look_up(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
		   struct wire_port **out)
{
	struct port *port = port_table_find(gid, ifindex, false);
	int error = 0;

	if (!port || !is_still_there(port)) {
		UNCANCELLED;

		lock_acquire(&port_table_lock);
		error = failed_before(gid);
		port = port_table_find(gid, ifindex, false);
		if (!error && port && !is_still_there(port))
			error = fail(gid, device, EADDRNOTAVAIL, "");
		lock_release(&port_table_lock);
	}
	if (!error && !port)
		return EINPROGRESS;
	if (!error)
		*out = port->wire;
	return error;
}

int port_open_nowait(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
		     struct wire_port **port)
{
	int error = look_up(gid, ifindex, device, port);
	bool wake;

	if (error != EINPROGRESS)
		return error;
	lock_acquire(&port_table_lock);
	wake = want(gid, ifindex, device);
	lock_release(&port_table_lock);
	if (wake)
		wakeup_send();
	return EINPROGRESS;
}

int port_open(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
	      struct wire_port **port)
{
	int error = look_up(gid, ifindex, device, port), fd = -1;
	char why[256] = "";

	if (error != EINPROGRESS)
		return error;

	UNCANCELLED;

	error = -ctl_port(ctl, gid, ifindex, &fd, why, sizeof(why));
	lock_acquire(&port_table_lock);
	error = open_port(gid, ifindex, device, error, why, fd);
	lock_release(&port_table_lock);
	if (!error)
		*port = port_table_find(gid, ifindex, false)->wire;
	return error;
}

/* Takes a question that is due, and notes that it is asked; false: there is none. */
static bool take_wanted(uint64_t now, struct question *out)
{
	struct question *found = NULL;
	uint64_t next = PORT_OPEN_NEVER;

	lock_acquire(&port_table_lock);
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
		found->wanted_ns = PORT_OPEN_NEVER;
		*out = *found;
	}
	ask_ns = next;
	lock_release(&port_table_lock);
	return found;
}

static void want_again(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, uint64_t ns)
{
	struct question *question;

	lock_acquire(&port_table_lock);
	question = find_question(gid, ifindex);
	if (question)
		want_at(question, ns);
	lock_release(&port_table_lock);
}

/*
 * Without a connection no question is repeated: port_open_ask_again repeats all to a new verbatimd.
 */
uint64_t port_open_ask(uint64_t now)
{
	struct question question;

	while (ask_ns <= now && take_wanted(now, &question))
		if (ctl_port_ask(ctl, question.gid, question.ifindex) == -EAGAIN)
			want_again(question.gid, question.ifindex, now + ASK_AGAIN_NS);
	return ask_ns;
}

uint64_t port_open_due_ns(void)
{
	return ask_ns;
}

void port_open_on_answer(const struct ctl_port_answer *answer)
{
	struct question *question;

	lock_acquire(&port_table_lock);
	question = find_question(answer->gid, answer->ifindex);
	if (question && answer->error == -EAGAIN && clock_now_ns() < question->until_ns) {
		want_at(question, clock_now_ns() + ASK_AGAIN_NS);
		lock_release(&port_table_lock);
		return;
	}
	open_port(answer->gid, answer->ifindex, question ? question->device : "a device",
		  -answer->error, answer->why, answer->fd);
	if (question)
		question->until_ns = 0;
	lock_release(&port_table_lock);
	shm_retry_on_peers();
}

void port_open_ask_again(void)
{
	lock_acquire(&port_table_lock);
	for (int i = 0; i < QUESTIONS; i++)
		if (questions[i].until_ns)
			want_at(&questions[i], 0);
	lock_release(&port_table_lock);
}

/*
 * Also for ports of other devices: their addresses may move to this one. Groups' ports always do.
 */
static void enable_hop_limits(void)
{
	lock_acquire(&port_table_lock);
	if (!datagrams) {
		datagrams = true;
		for (uint32_t i = 0; i < port_table_count; i++)
			if (port_table[i].wire)
				udp_enable_hop_limits(port_table[i].wire);
	}
	lock_release(&port_table_lock);
}

/*
 * verbatimd does not answer, or waits for a process that has not returned to it: waiting for a
 * further answer is useless, too.
 */
static bool is_silence(int error)
{
	return error == ETIMEDOUT || error == ENOTCONN || error == EAGAIN;
}

/* Opens the port as soon as verbatimd answers again, although it has just failed. */
static void want_later(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device)
{
	bool wake;

	lock_acquire(&port_table_lock);
	wake = !port_table_find(gid, ifindex, false) && want(gid, ifindex, device);
	lock_release(&port_table_lock);
	if (wake)
		wakeup_send();
}

void port_open_all(struct context *context)
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
	enable_hop_limits();
	if (loopback && !path_is_forced())
		return;
	for (int i = 0; i < DEVICE_GIDS; i++)
		if (!gid_is_zero(gids[i].raw)) {
			int error =
				silent ? ETIMEDOUT
				       : port_open(gids[i].raw, ifindex, device->ib.name, &port);

			if (is_silence(error))
				want_later(gids[i].raw, ifindex, device->ib.name);
			silent |= is_silence(error);
		}
}

void port_open_reset_after_fork(void)
{
	lock_acquire_in_child(&port_table_lock);
	datagrams = false;
	memset(failures, 0, sizeof(failures));
	memset(questions, 0, sizeof(questions));
	ask_ns = PORT_OPEN_NEVER;
	ctl = NULL;
	lock_release(&port_table_lock);
}
