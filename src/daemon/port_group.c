/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/port_group.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/source_port.h"
#include "event/close_pool.h"
#include "event/fd_store.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define STEP	   4 /* sockets made at once, as one message of the descriptor store */
#define SLOT_SHIFT 14
#define QPN_MASK   0xffffff
#define DRAIN_MAX  100000 /* more than any buffer holds */

_Static_assert(STEP <= FD_STORE_ADD_MAX && (CTL_SLOT_MAX + 1) % STEP == 0, "a step is one message");

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * One socket.
 */

static int stop_dropping(int fd)
{
	return set(fd, SOL_SOCKET, SO_DETACH_FILTER, 0) && errno != ENOENT ? -errno : 0;
}

/*
 * Drops queued datagrams. The filter lets no more in, unless a process with a copy of the socket
 * has removed it; so there is a limit.
 */
static void drain(int fd)
{
	char byte;

	for (unsigned i = 0; i < DRAIN_MAX; i++) {
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0 && errno != EINTR &&
		    errno != ECONNREFUSED)
			break;
	}
}

/*
 * Turns on UDP_GRO. The kernel decides whether to merge packets by any socket of the group, before
 * it steers them, so all sockets have the option, used or not. Receivers split merged packets.
 */
static void prefer(int fd)
{
	set(fd, IPPROTO_UDP, UDP_GRO, 1);
	source_port_accept_unchecked(fd);
}

/* A socket bound to the address, with the filter that drops all; or -errno. */
static int open_socket(const struct port_group *g, bool shares)
{
	union gid_sockaddr address;
	socklen_t len = gid_to_sockaddr(g->gid, g->ifindex, CTL_UDP_PORT, &address);
	int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc;

	if (fd < 0)
		return -errno;
	rc = source_port_drop_received(fd);
	prefer(fd);
	if (!rc && shares)
		rc = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (!rc && address.any.sa_family == AF_INET6)
		rc = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!rc && bind(fd, &address.any, len) < 0)
		rc = -errno;
	/* Others may join from now on. Not before: so bind() fails if any other group exists. */
	if (!rc && !shares)
		rc = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* A process may have put anything into the store. */
static bool is_socket_of(const struct port_group *g, int fd)
{
	union gid_sockaddr want, have;
	socklen_t len = sizeof(have), int_len = sizeof(int);
	int type, shares;

	gid_to_sockaddr(g->gid, g->ifindex, CTL_UDP_PORT, &want);
	memset(&have, 0, sizeof(have));
	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &int_len) && type == SOCK_DGRAM &&
	       !getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shares, &int_len) && shares &&
	       !getsockname(fd, &have.any, &len) && gid_sockaddr_equal(&want, &have);
}

/*
 * ------------------------------------------------------------------------------------------
 * The group.
 */

/*
 * Attaches a BPF program that reads the slot in the destination QPN. Packets for a slot without a
 * socket go to socket 0. 0 or -errno.
 */
static int steer(struct port_group *g)
{
	struct sock_filter slot_of_qpn[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4), /* of the BTH; shorter ones go to socket 0 */
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MASK),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, SLOT_SHIFT),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, g->count, 1, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { sizeof(slot_of_qpn) / sizeof(*slot_of_qpn), slot_of_qpn };

	if (setsockopt(g->sockets[0]->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
		       sizeof(program)) < 0)
		return -errno;
	g->steered = g->count;
	return 0;
}

/* Closes from the end, so that the others keep their indexes. */
static void shrink(struct port_group *g, unsigned count)
{
	while (g->count > count)
		fdref_put(g->sockets[--g->count]);
}

/*
 * Binds the next sockets and adds them to the descriptor store. All or nothing: 0 or -errno. The
 * BPF program does not steer to them yet.
 */
static int grow(struct port_group *g)
{
	unsigned before = g->count;
	int fds[STEP], rc = 0;

	for (int i = 0; i < STEP && !rc; i++) {
		fds[i] = open_socket(g, g->count != 0);
		if (fds[i] < 0) {
			rc = fds[i];
			break;
		}
		g->sockets[g->count] = fdref_create(fds[i]);
		if (g->sockets[g->count])
			g->count++;
		else
			rc = -ENOMEM;
	}
	if (!rc)
		rc = fd_store_add(g->fd_store->fd, fds, STEP);
	if (rc)
		shrink(g, before);
	return rc;
}

static uint64_t *users_word(const struct port_group *g, unsigned slot)
{
	return &g->record->users[slot / 64];
}

/* fd: of a record, taken over also when it fails. 0 or -errno. */
static int map_record(struct port_group *g, int fd)
{
	void *p = mmap(NULL, sizeof(*g->record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	g->record = p;
	g->record_fd = fd;
	return 0;
}

static int make_record(struct port_group *g)
{
	int fd = memfd_create("verbatimd-port", MFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(*g->record)) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	rc = map_record(g, fd);
	if (!rc) /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): map_record has set it */
		g->record->magic = PORT_RECORD_MAGIC;
	return rc;
}

/* record_fd: -1 for a new one. 0 or -errno. */
static int allocate(const uint8_t *gid, uint32_t ifindex, int record_fd, struct port_group **out)
{
	struct port_group *g = calloc(1, sizeof(*g));
	int fd, rc;

	if (!g)
		return -ENOMEM;
	list_init(&g->in_daemon);
	memcpy(g->gid, gid, sizeof(g->gid));
	g->ifindex = ifindex;
	fd = record_fd < 0 ? -1 : fcntl(record_fd, F_DUPFD_CLOEXEC, 0);
	rc = record_fd < 0 ? make_record(g) : fd < 0 ? -errno : map_record(g, fd);
	if (rc) {
		free(g);
		return rc;
	}
	*out = g;
	return 0;
}

int port_group_create(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, struct port_group **out)
{
	struct port_group *g;
	int rc = allocate(gid, ifindex, -1, &g), fd_store;

	if (rc)
		return rc;
	fd_store = fd_store_create();
	if (fd_store < 0)
		rc = fd_store;
	else
		g->fd_store = fdref_create_of_client(geteuid(), fd_store);
	if (!rc)
		rc = g->fd_store ? grow(g) : -ENOMEM;
	if (rc) {
		port_group_destroy(g);
		return rc;
	}
	*out = g;
	return 0;
}

/* Takes the sockets out of the descriptor store, and counts them in g->count. 0 or -errno. */
static int unpack(struct port_group *g, int fd_store)
{
	static int fds[CTL_SLOT_MAX + 1]; /* the daemon has one thread */
	int count = fd_store_look(fd_store, fds, CTL_SLOT_MAX + 1), rc = 0;

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		struct fdref *f;

		if (!rc && !is_socket_of(g, fds[i]))
			rc = -EPROTO;
		if (rc) {
			close_pool_close(geteuid(), fds[i]);
			continue;
		}
		prefer(fds[i]); /* an older daemon may not have set it */
		f = fdref_create(fds[i]);
		if (f)
			g->sockets[g->count++] = f;
		else
			rc = -ENOMEM;
	}
	return rc ? rc : count % STEP || !count ? -EPROTO : 0;
}

static int take_over(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, int fd_store,
		     int record_fd, struct port_group **out)
{
	struct port_group *g;
	int fd, rc = allocate(gid, ifindex, record_fd, &g);

	if (rc)
		return rc;
	rc = unpack(g, fd_store);
	if (!rc) {
		fd = fcntl(fd_store, F_DUPFD_CLOEXEC, 0);
		g->fd_store = fd >= 0 ? fdref_create_of_client(geteuid(), fd) : NULL;
		rc = g->fd_store ? 0 : fd < 0 ? -errno : -ENOMEM;
	}
	/* The old daemon may have been killed between the last sockets and this. */
	if (!rc)
		rc = steer(g);
	if (rc) {
		port_group_destroy(g);
		return rc;
	}
	*out = g;
	return 0;
}

int port_group_adopt(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, int fd_store,
		     struct port_group **out)
{
	return take_over(gid, ifindex, fd_store, -1, out);
}

static bool is_record(int fd)
{
	uint64_t magic;
	struct stat s;

	return !fstat(fd, &s) && s.st_size == sizeof(struct port_record) &&
	       pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == PORT_RECORD_MAGIC;
}

int port_group_restore(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, int fd_store,
		       int record_fd, struct port_group **out)
{
	int rc = is_record(record_fd) ? take_over(gid, ifindex, fd_store, record_fd, out) : -EPROTO;

	if (rc)
		return rc;
	/*
	 * The earlier daemon's own use ended with it. It may have been killed before a slot's
	 * socket was made.
	 */
	for (unsigned slot = 0; slot <= CTL_SLOT_MAX; slot++) {
		if (!slot || slot >= (*out)->count)
			*users_word(*out, slot) &= ~(UINT64_C(1) << slot % 64);
	}
	return 0;
}

bool port_group_has_fd_store(const struct port_group *g, int fd_store)
{
	struct stat a, b;

	return !fstat(g->fd_store->fd, &a) && !fstat(fd_store, &b) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

bool port_group_suits(const struct port_group *g, unsigned slot, uid_t uid)
{
	return !g->record->uids[slot] || g->record->uids[slot] == uid + UINT64_C(1);
}

bool port_group_is_user(const struct port_group *g, unsigned slot)
{
	return *users_word(g, slot) >> slot % 64 & 1;
}

int port_group_use_on(struct port_group *g, unsigned slot, uid_t uid)
{
	int rc = 0;

	while (!rc && g->count <= slot)
		rc = grow(g);
	/* Also if the sockets existed, and the kernel refused the program before. */
	if (!rc && g->steered != g->count)
		rc = steer(g);
	if (!rc)
		rc = stop_dropping(g->sockets[slot]->fd);
	if (!rc) {
		/*
		 * In this order: whenever the daemon is killed, the user of a slot in use is known.
		 */
		g->record->uids[slot] = uid + UINT64_C(1);
		*users_word(g, slot) |= UINT64_C(1) << slot % 64;
	}
	return rc;
}

int port_group_use(struct port_group *g, unsigned slot, uid_t uid)
{
	/* Datagrams of a process that died while no daemon ran. */
	if (!port_group_is_user(g, slot) && slot < g->count) {
		int rc = source_port_drop_received(g->sockets[slot]->fd);

		if (rc)
			return rc;
		drain(g->sockets[slot]->fd);
	}
	return port_group_use_on(g, slot, uid);
}

bool port_group_leave(struct port_group *g, unsigned slot)
{
	uint64_t all = 0;

	if (port_group_is_user(g, slot)) {
		*users_word(g, slot) &= ~(UINT64_C(1) << slot % 64);
		if (!source_port_drop_received(g->sockets[slot]->fd))
			drain(g->sockets[slot]->fd);
	}
	for (unsigned i = 0; i < CTL_BITMAP_WORDS; i++)
		all |= g->record->users[i];
	return !all;
}

void port_group_destroy(struct port_group *g)
{
	list_del(&g->in_daemon);
	shrink(g, 0);
	fdref_put(g->fd_store);
	munmap(g->record, sizeof(*g->record));
	close(g->record_fd);
	free(g);
}
