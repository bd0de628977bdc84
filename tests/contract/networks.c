/* SPDX-License-Identifier: BSD-2-Clause */
#include "networks.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../own_network.h"
#include "runner.h"

#define INTERFACE "veth0"

static int first = -1, second = -1;
static char reason[256];

bool networks_wanted(void)
{
	const char *value = getenv("VERBATIM_TEST_NETWORKS");

	return value && !strcmp(value, "2");
}

/* Moves the process to a new namespace; returns its descriptor. */
static int make_one(void)
{
	int fd;

	if (!own_network_enter())
		return -1;
	fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && system("ip link set lo up") != 0)
		errno = ENOENT;
	return fd;
}

/* Without generated IPv6 addresses, which would appear while the tests run. */
static bool bring_up(int address)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "ip link set " INTERFACE " addrgenmode none mtu 9000 && "
		 "ip addr add 10.111.0.%d/24 dev " INTERFACE " && ip link set " INTERFACE " up",
		 address);
	return system(command) == 0;
}

bool networks_is_running(const char *interface)
{
	struct ifreq request = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool running = false;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	for (int i = 0; fd >= 0 && !running && i < 500; i++) {
		running = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_RUNNING;
		if (!running)
			usleep(10000);
	}
	close(fd);
	return running;
}

static const char *give_up(const char *what)
{
	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(errno));
	return reason;
}

const char *networks_make(void)
{
	char command[256];

	second = make_one();
	if (second < 0)
		return give_up("no network namespace");
	first = make_one();
	if (first < 0)
		return give_up("no network namespace");
	snprintf(command, sizeof(command),
		 "ip link add " INTERFACE " type veth peer name " INTERFACE " netns /proc/%d/fd/%d",
		 getpid(), second);
	if (system(command) != 0 || !bring_up(1))
		return give_up("no veth interfaces");
	if (setns(second, CLONE_NEWNET) < 0 || !bring_up(2) || !networks_is_running(INTERFACE) ||
	    setns(first, CLONE_NEWNET) < 0 || !networks_is_running(INTERFACE))
		return give_up("the interfaces do not come up");
	return NULL;
}

void networks_enter_second(void)
{
	REQUIRE(setns(second, CLONE_NEWNET) == 0, "setns: %s", strerror(errno));
}
