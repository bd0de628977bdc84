/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tenant - a client of verbatimd with a device, two QPs and causes in its arena. Prints its slot
 * when it is ready, and stays until its standard input ends.
 *
 *     tenant [COMM [CAUSES]]
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cause.h"
#include "base/counter.h"
#include "ctl/client.h"

static void fill(void *arena, unsigned slot)
{
	struct arena_device *device = &arena_devices(arena)[0];
	struct arena_qp *qps = arena_qps(arena);

	snprintf(device->name, sizeof(device->name), "vrb_lo");
	snprintf(device->address, sizeof(device->address), "127.0.0.1");
	device->contexts = 1;
	qps[1].dest_qpn = slot << ARENA_QP_BITS | 2;
	qps[1].word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS);
	qps[2].device = 99;
	qps[2].word = ARENA_QP_WORD(IBV_QPT_UD, IBV_QPS_ERR);
}

int main(int argc, char **argv)
{
	const char *comm = argc > 1 ? argv[1] : "tenant";
	int causes = argc > 2 ? atoi(argv[2]) : 1;
	int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct ctl_client *client;
	char why[256];
	void *arena;

	if (fd < 0 || wake_fd < 0 || ftruncate(fd, ARENA_BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
		return 1;
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (arena == MAP_FAILED)
		return 1;
	arena_header(arena)->magic = ARENA_MAGIC;
	arena_header(arena)->version = ARENA_VERSION;
	if (ctl_connect(&client, fd, wake_fd, fd, comm, why, sizeof(why)) != 0) {
		fprintf(stderr, "tenant: %s\n", why);
		return 1;
	}
	fill(arena, ctl_slot(client));
	counter_init(arena);
	for (int i = 0; i < 3; i++)
		counter_add(COUNTER_NAKS_RECEIVED);
	cause_init(arena);
	for (int i = 0; i < causes; i++)
		cause_report(CAUSE_RKEY_RANGE, ctl_slot(client) << ARENA_QP_BITS | 1,
			     "rkey 0x%x, report %d\033[2J", 0xabcdu, i);
	printf("%u\n", ctl_slot(client));
	fflush(stdout);
	while (getchar() != EOF)
		;
	ctl_close(client);
	return 0;
}
