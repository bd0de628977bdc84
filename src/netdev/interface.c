/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/interface.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/syscall.h"
#include "base/transport.h"

#define INTERFACES_MAX 256

static struct interface *find(struct interface *list, int count, const char *name, size_t len)
{
	for (int i = 0; i < count; i++)
		if (strlen(list[i].name) == len && memcmp(list[i].name, name, len) == 0)
			return &list[i];
	return NULL;
}

static struct interface *find_or_add(struct interface *list, int *count, const char *label)
{
	size_t len = strcspn(label, ":"); /* eth0:1 is a label of eth0 */
	struct interface *interface;

	if (len >= IF_NAMESIZE)
		return NULL;
	interface = find(list, *count, label, len);
	if (interface || *count == INTERFACES_MAX)
		return interface;
	interface = &list[(*count)++];
	memcpy(interface->name, label, len);
	return interface;
}

static void add_ipv4(struct interface *interface, const struct sockaddr_in *address)
{
	union ibv_gid gid;

	if (interface->ipv4 + interface->ipv6 == INTERFACE_GIDS || !address->sin_addr.s_addr)
		return;
	gid_from_v4(&address->sin_addr, gid.raw);
	memmove(&interface->gid[interface->ipv4 + 1], &interface->gid[interface->ipv4],
		interface->ipv6 * sizeof(gid));
	interface->gid[interface->ipv4++] = gid;
}

static void add_ipv6(struct interface *interface, const struct sockaddr_in6 *address)
{
	if (interface->ipv4 + interface->ipv6 == INTERFACE_GIDS ||
	    IN6_IS_ADDR_UNSPECIFIED(&address->sin6_addr))
		return;
	memcpy(interface->gid[interface->ipv4 + interface->ipv6++].raw, &address->sin6_addr, 16);
}

static void add_mac(struct interface *interface, const struct sockaddr_ll *address)
{
	if (address->sll_halen == sizeof(interface->mac))
		memcpy(interface->mac, address->sll_addr, sizeof(interface->mac));
}

/* Its interface is up: its addresses count. */
static bool counts(const struct ifaddrs *a)
{
	return a->ifa_flags & IFF_UP && a->ifa_addr && a->ifa_name;
}

static void add_address(struct interface *list, int *count, const struct ifaddrs *a)
{
	sa_family_t family = a->ifa_addr->sa_family;
	struct interface *interface;

	if (family != AF_INET && family != AF_INET6)
		return;
	interface = find_or_add(list, count, a->ifa_name);
	if (!interface)
		return;
	interface->loopback = a->ifa_flags & IFF_LOOPBACK;
	interface->running = a->ifa_flags & IFF_RUNNING;
	if (family == AF_INET)
		add_ipv4(interface, (const void *)a->ifa_addr);
	else
		add_ipv6(interface, (const void *)a->ifa_addr);
}

/*
 * getifaddrs lists links first, and a host may have hundreds without an address, so the places are
 * those of addresses.
 */
int interface_collect(const struct ifaddrs *addresses, struct interface **out)
{
	struct interface *list = calloc(INTERFACES_MAX, sizeof(*list));
	int count = 0, kept = 0;

	if (!list)
		return -ENOMEM;
	for (const struct ifaddrs *a = addresses; a; a = a->ifa_next)
		if (counts(a))
			add_address(list, &count, a);
	for (const struct ifaddrs *a = addresses; a; a = a->ifa_next) {
		struct interface *interface =
			counts(a) && a->ifa_addr->sa_family == AF_PACKET
				? find(list, count, a->ifa_name, strlen(a->ifa_name))
				: NULL;

		if (interface)
			add_mac(interface, (const void *)a->ifa_addr);
	}
	for (int i = 0; i < count; i++)
		if (list[i].ipv4 + list[i].ipv6)
			list[kept++] = list[i];
	*out = list;
	return kept;
}

/* For questions about interfaces. */
static int open_socket(void)
{
	int sock = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return sock < 0 ? sys_socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) : sock;
}

/* 0: there is no such interface. */
static unsigned int read_index(int sock, const char *name)
{
	struct ifreq request = { 0 };

	memcpy(request.ifr_name, name, sizeof(request.ifr_name));
	return ioctl(sock, SIOCGIFINDEX, &request) == 0 ? (unsigned int)request.ifr_ifindex : 0;
}

static uint32_t read_mtu(int sock, const char *name)
{
	struct ifreq request = { 0 };

	memcpy(request.ifr_name, name, sizeof(request.ifr_name));
	return ioctl(sock, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 1500;
}

int interface_scan(struct interface **out)
{
	struct ifaddrs *addresses;
	int count, kept = 0, sock;

	if (getifaddrs(&addresses) < 0)
		return -errno;
	count = interface_collect(addresses, out);
	freeifaddrs(addresses);
	if (count < 0)
		return count;
	sock = open_socket();
	if (sock < 0 && count) {
		int error = errno;

		free(*out); /* without indexes all interfaces would seem to have vanished */
		return -error;
	}
	for (int i = 0; i < count; i++) {
		struct interface *interface = &(*out)[i];

		interface->index = read_index(sock, interface->name);
		if (!interface->index)
			continue; /* it has vanished meanwhile */
		interface->mtu = read_mtu(sock, interface->name);
		(*out)[kept++] = *interface;
	}
	if (sock >= 0)
		close(sock);
	return kept;
}

void interface_parse_route(const char *text, char name[IF_NAMESIZE])
{
	unsigned long lowest = ~0ul;

	name[0] = 0;
	while ((text = strchr(text, '\n'))) {
		unsigned long destination, flags, metric, mask;
		char candidate[IF_NAMESIZE];

		text++;
		/* Iface Destination Gateway Flags RefCnt Use Metric Mask */
		if (sscanf(text, "%15s %lx %*x %lx %*d %*d %lu %lx", candidate, &destination,
			   &flags, &metric, &mask) != 5)
			continue;
		if (destination || mask || !(flags & 1) || metric >= lowest)
			continue;
		lowest = metric;
		memcpy(name, candidate, IF_NAMESIZE);
	}
}

/* /proc/net/ipv6_route: destination, its prefix length, source, its, next hop, metric, ..., name */
void interface_parse_route6(char *text, char name[IF_NAMESIZE])
{
	unsigned long lowest = ~0ul;
	char *rest; /* strtok's state belongs to the program */

	name[0] = 0;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char candidate[IF_NAMESIZE];
		unsigned long length, metric;

		if (sscanf(line, "%*32s %lx %*32s %*x %*32s %lx %*x %*x %*x %15s", &length, &metric,
			   candidate) != 3)
			continue;
		if (length || metric >= lowest || strcmp(candidate, "lo") == 0)
			continue;
		lowest = metric;
		memcpy(name, candidate, IF_NAMESIZE);
	}
}

/* The whole file, or as much as fits, with a terminating 0. */
static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got;

	text[0] = 0;
	if (fd < 0)
		return false;
	while (len < size - 1 && (got = read(fd, text + len, size - 1 - len)) > 0)
		len += got;
	text[len] = 0;
	close(fd);
	return len > 0;
}

void interface_default(char name[IF_NAMESIZE])
{
	const size_t size = 256 * 1024;
	char *text = malloc(size);

	name[0] = 0;
	if (!text)
		return;
	if (read_text("/proc/net/route", text, size))
		interface_parse_route(text, name);
	if (!name[0] && read_text("/proc/net/ipv6_route", text, size))
		interface_parse_route6(text, name);
	free(text);
}

/*
 * Interfaces that lead to other hosts come first. The addresses of the others mean nothing to
 * another host, or belong to another machine there: a program that stripes over all devices must
 * not find them.
 */
enum rank {
	RANK_CABLE,	/* a network card, or a virtual one */
	RANK_CONTAINER, /* a bridge or veth of containers and virtual machines, by its name */
	RANK_LOOPBACK,
};

#define HEX_4 "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"

/*
 * verbatim(7) lists them. A bridge of the administrator's (br0) has the host's address: not here.
 */
static const char *const container_names[] = {
	/* Docker, Podman */
	"docker0",
	"docker_gwbridge",
	("br-" HEX_4 HEX_4 HEX_4),
	"podman*",
	"cni*",
	"veth*",
	/* LXC, LXD, Incus; libvirt: its bridges, and the cables of its machines */
	"lxcbr*",
	"lxdbr*",
	"incusbr*",
	"virbr*",
	"vnet*",
	/* networks of Kubernetes */
	"cali*",
	"vxlan.calico",
	"cilium_*",
	"lxc*",
	"flannel*",
	"weave",
	"kube-*",
	"nodelocaldns",
};

/* `first` is the interface of the default route: it leads to other hosts, whatever its name is. */
static enum rank rank_of(const struct interface *interface, const char *first)
{
	const size_t names = sizeof(container_names) / sizeof(*container_names);

	if (interface->loopback)
		return RANK_LOOPBACK;
	if (strcmp(interface->name, first) == 0)
		return RANK_CABLE;
	for (size_t i = 0; i < names; i++)
		if (fnmatch(container_names[i], interface->name, 0) == 0)
			return RANK_CONTAINER;
	return RANK_CABLE;
}

static int in_order(const void *left, const void *right, void *first)
{
	const struct interface *a = left, *b = right;
	int rank = (int)rank_of(a, first) - (int)rank_of(b, first);
	bool a_first = strcmp(a->name, first) == 0;
	bool b_first = strcmp(b->name, first) == 0;

	if (rank)
		return rank;
	if (a_first != b_first)
		return a_first ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

/* How many of an ordered list are offered: whole ranks, until one of them has a carrier. */
static int offered(const struct interface *list, int count, const char *first)
{
	bool running = false;
	int n = 0;

	while (n < count) {
		enum rank rank = rank_of(&list[n], first);

		if (running && rank != rank_of(&list[n - 1], first))
			break;
		running |= list[n++].running;
	}
	return n;
}

static bool is_prefixed(const struct interface *interface, const char *prefix, const char *name,
			size_t len)
{
	size_t before = strlen(prefix);

	return len > before && memcmp(name, prefix, before) == 0 &&
	       strlen(interface->name) == len - before &&
	       memcmp(interface->name, name + before, len - before) == 0;
}

static bool is_named(const struct interface *interface, const char *name, size_t len)
{
	return is_prefixed(interface, "", name, len) ||
	       is_prefixed(interface, DEVICE_PREFIX, name, len) ||
	       is_prefixed(interface, DEVICE_RNIC, name, len);
}

int interface_order(struct interface *list, int count, const char *first, const char *filter)
{
	int kept = 0;

	qsort_r(list, count, sizeof(*list), in_order, (void *)first);
	if (!filter)
		return offered(list, count, first);
	while (*filter) {
		size_t len = strcspn(filter, ", ");

		for (int i = kept; i < count && len; i++) {
			struct interface named = list[i];

			if (!is_named(&named, filter, len))
				continue;
			memmove(&list[kept + 1], &list[kept], (i - kept) * sizeof(*list));
			list[kept++] = named;
			break;
		}
		filter += len;
		filter += strspn(filter, ", ");
	}
	return kept;
}

void interface_flags(const char *name, bool *up, bool *running)
{
	int sock = open_socket();
	struct ifreq request = { 0 };

	memcpy(request.ifr_name, name, strnlen(name, IF_NAMESIZE - 1));
	*up = *running = false;
	if (sock < 0)
		return;
	if (ioctl(sock, SIOCGIFFLAGS, &request) == 0) {
		*up = request.ifr_flags & IFF_UP;
		*running = *up && request.ifr_flags & IFF_RUNNING;
	}
	close(sock);
}

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

void interface_device_name(const struct interface *interface, char name[DEVICE_NAME_MAX])
{
	snprintf(name, DEVICE_NAME_MAX, "%s%s", transport_is_iwarp() ? DEVICE_RNIC : DEVICE_PREFIX,
		 interface->name);
}

void interface_rnic_gid(const struct interface *interface, union ibv_gid *gid)
{
	static const uint8_t none[6];
	uint64_t guid = htobe64(interface_guid(interface));

	memset(gid, 0, sizeof(*gid));
	if (memcmp(interface->mac, none, sizeof(none)) != 0)
		memcpy(gid->raw, interface->mac, sizeof(interface->mac));
	else
		memcpy(gid->raw, &guid, sizeof(interface->mac));
}

uint64_t interface_guid(const struct interface *interface)
{
	static const uint8_t none[6];
	const uint8_t *mac = interface->mac;
	char host[65] = "", boot[64];
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	if (memcmp(mac, none, sizeof(none)) != 0)
		return (uint64_t)(mac[0] ^ 2) << 56 | (uint64_t)mac[1] << 48 |
		       (uint64_t)mac[2] << 40 | UINT64_C(0xfffe) << 24 | mac[3] << 16 |
		       mac[4] << 8 | mac[5];
	gethostname(host, sizeof(host) - 1);
	if (read_text("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)))
		hash = mix(hash, boot, strlen(boot));
	hash = mix(hash, host, strlen(host));
	hash = mix(hash, &interface->index, sizeof(interface->index));
	/* Locally administered, and not a group. */
	return (hash & ~(UINT64_C(3) << 56)) | UINT64_C(2) << 56 | 1;
}
