/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/resources.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "ctl/observe.h"

#define QPS_AT_ONCE 256

static_assert(ARENA_QPS % QPS_AT_ONCE == 0, "QPs are read in equal parts");

struct walk {
	const char *device;
	void (*each)(const struct resource_qp *qp, void *arg);
	void *arg;
	uint64_t contexts;
	/* of the process */
	pid_t pid;
	uint32_t first_qpn, index; /* index: of the device */
};

/*
 * Reads a part of an arena that its owner may be writing. The kernel copies aligned words whole.
 * False: it is too short.
 */
static bool read_part(int arena, size_t offset, void *part, size_t bytes)
{
	return pread(arena, part, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool is_arena(int fd)
{
	struct arena_header header;

	return read_part(fd, 0, &header, sizeof(header)) && header.magic == ARENA_MAGIC &&
	       header.version == ARENA_VERSION;
}

/* The first of this name: no honest arena has two. False: the process has not opened the device. */
static bool find_device(int arena, struct walk *walk)
{
	struct arena_device devices[ARENA_DEVICES];

	if (!read_part(arena, ARENA_DEVICE_OFFSET, devices, sizeof(devices)))
		return false;
	for (uint32_t i = 0; i < ARENA_DEVICES; i++) {
		if (strncmp(devices[i].name, walk->device, sizeof(devices[i].name)) != 0)
			continue;
		walk->index = i;
		walk->contexts += devices[i].contexts;
		return true;
	}
	return false;
}

static void see_qp(const struct walk *walk, const struct arena_qp *qp, uint32_t i)
{
	uint32_t word = atomic_load_explicit(&qp->word, memory_order_relaxed);

	if (!word || qp->device != walk->index)
		return;
	walk->each(&(struct resource_qp){ .pid = walk->pid,
					  .qpn = walk->first_qpn + i,
					  .type = ARENA_QP_TYPE(word),
					  .state = ARENA_QP_STATE(word),
					  .dest_qpn = qp->dest_qpn,
					  .rq_psn = qp->rq_psn,
					  .sq_psn = qp->sq_psn,
					  .pd = qp->pd },
		   walk->arg);
}

static void see_process(const struct observe_process *process, void *arg)
{
	struct arena_qp part[QPS_AT_ONCE];
	struct walk *walk = arg;

	if (!is_arena(process->arena_fd) || !find_device(process->arena_fd, walk))
		return;
	walk->pid = process->pid;
	walk->first_qpn = process->slot << ARENA_QP_BITS;
	for (uint32_t first = 0; first < ARENA_QPS; first += QPS_AT_ONCE) {
		size_t offset = ARENA_QP_OFFSET + first * sizeof(part[0]);

		if (!read_part(process->arena_fd, offset, part, sizeof(part)))
			return;
		for (uint32_t i = 0; i < QPS_AT_ONCE; i++)
			see_qp(walk, &part[i], first + i);
	}
}

static int walk_processes(struct walk *walk)
{
	int rc = observe_processes(see_process, walk, NULL, 0);

	return rc == -ECONNREFUSED ? 0 : rc;
}

int resources_qps(const char *device, void (*each)(const struct resource_qp *qp, void *arg),
		  void *arg)
{
	return walk_processes(&(struct walk){ .device = device, .each = each, .arg = arg });
}

static void count_qp(const struct resource_qp *qp, void *arg)
{
	uint64_t *qps = arg;

	++*qps;
}

int resources_count(const char *device, uint64_t *qps, uint64_t *contexts)
{
	struct walk walk = { .device = device, .each = count_qp, .arg = qps };
	int rc;

	*qps = 0;
	rc = walk_processes(&walk);
	*contexts = walk.contexts;
	return rc;
}

struct search {
	const struct interface *interface;
	void (*each)(const struct resource_listener *listener, void *arg);
	void *arg;
};

static bool has_address(const struct interface *interface, const uint8_t gid[16])
{
	for (int i = 0; i < interface->ipv4 + interface->ipv6; i++)
		if (memcmp(interface->gid[i].raw, gid, 16) == 0)
			return true;
	return false;
}

/* The wildcard of either kind: "::", or 0.0.0.0 as an IPv4-mapped address. */
static bool is_any(const uint8_t gid[16])
{
	static const uint8_t any[16], any_ipv4[16] = { [10] = 0xff, 0xff };

	return memcmp(gid, any, 16) == 0 || memcmp(gid, any_ipv4, 16) == 0;
}

static void see_listener(const struct observe_listener *from, void *arg)
{
	const struct search *search = arg;
	struct resource_listener listener = {
		.pid = from->pid,
		.space = from->space,
		.any = is_any(from->local.gid),
		.ipv6 = from->local.family == AF_INET6,
		.port = from->local.port,
	};
	uint32_t index = from->local.ifindex;

	if (index && index != search->interface->index)
		return;
	if (!listener.any && !has_address(search->interface, from->local.gid))
		return;
	memcpy(listener.address.raw, from->local.gid, sizeof(listener.address.raw));
	search->each(&listener, search->arg);
}

int resources_listeners(const struct interface *interface,
			void (*each)(const struct resource_listener *listener, void *arg),
			void *arg)
{
	struct search search = { interface, each, arg };
	int rc = observe_listeners(see_listener, &search, NULL, 0);

	return rc == -ECONNREFUSED ? 0 : rc;
}
