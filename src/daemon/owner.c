/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/owner.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/gid.h"
#include "ctl/deadline.h"

#define INODES_MAX 64
#define KNOWN_MAX  64
#define KNOWN_NS   INT64_C(1000000000)
#define SEARCH_NS  UINT64_C(50000000) /* for the search in /proc, in each PERIOD_NS */
#define PERIOD_NS  UINT64_C(1000000000)
#define ANSWER_MAX 32768

/* The sockets in question. */
struct search {
	const uint8_t *gid;
	bool is_v4;
	uint32_t inodes[INODES_MAX];
	unsigned count;
	struct owner *owner;
};

/*
 * ------------------------------------------------------------------------------------------
 * The kernel's list of sockets with our port (sock_diag(7)).
 */

static bool is_any(const uint8_t *bytes, size_t count)
{
	uint8_t all = 0;

	while (count--)
		all |= bytes[count];
	return !all;
}

/* [::] may be for IPv4, too. */
static bool matches(const struct search *s, const struct inet_diag_msg *m)
{
	const uint8_t *at = (const uint8_t *)m->id.idiag_src;

	if (m->idiag_family == AF_INET)
		return s->is_v4 && (is_any(at, 4) || !memcmp(at, s->gid + 12, 4));
	return is_any(at, 16) || !memcmp(at, s->gid, 16);
}

static void note(struct search *s, const struct nlmsghdr *h)
{
	const struct inet_diag_msg *m = NLMSG_DATA(h);

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) || ntohs(m->id.idiag_sport) != CTL_UDP_PORT ||
	    !matches(s, m))
		return;
	s->owner->found = true;
	s->owner->uid = m->idiag_uid;
	if (s->count < INODES_MAX)
		s->inodes[s->count++] = m->idiag_inode;
}

static int ask_sockets(int fd, int family)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} q = {
		.header = { .nlmsg_len = sizeof(q),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.request = { .sdiag_family = (uint8_t)family,
			     .sdiag_protocol = IPPROTO_UDP,
			     .idiag_states = ~0u,
			     .id.idiag_sport = htons(CTL_UDP_PORT) },
	};

	return send(fd, &q, sizeof(q), MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* False: that was the last part. Never waits: the kernel has queued the answer already. */
static bool read_part(struct search *s, int fd)
{
	static _Alignas(8) char bytes[ANSWER_MAX]; /* the daemon has one thread */
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	unsigned left = n > 0 ? (unsigned)n : 0;

	if (n <= 0)
		return false;
	for (struct nlmsghdr *h = (struct nlmsghdr *)bytes; NLMSG_OK(h, left);
	     h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
			return false;
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY)
			note(s, h);
	}
	return true;
}

static void find_sockets(struct search *s, int family)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return;
	if (!ask_sockets(fd, family)) {
		while (read_part(s, fd))
			;
	}
	close(fd);
}

/*
 * ------------------------------------------------------------------------------------------
 * The process that has one of them.
 */

/* Clears `searched` if it cannot look for want of a descriptor or of memory. */
static bool has_socket(const struct search *s, const char *pid)
{
	char path[300], link[64];
	bool has = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	if (!dir && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		s->owner->searched = false;
	for (struct dirent *e; dir && !has && (e = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		unsigned inode;

		link[n > 0 ? n : 0] = '\0';
		if (sscanf(link, "socket:[%u]", &inode) != 1)
			continue;
		for (unsigned i = 0; i < s->count; i++)
			has |= s->inodes[i] == inode;
	}
	if (dir)
		closedir(dir);
	return has;
}

static void read_comm(pid_t pid, char *comm, int size)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, size, f))
		*comm = '\0';
	if (f)
		fclose(f);
	comm[strcspn(comm, "\n")] = '\0';
	for (; *comm; comm++) {
		if (!isprint((unsigned char)*comm))
			*comm = '?';
	}
}

/*
 * The time used so far, of all addresses together. It is processor time, so that a search on a busy
 * machine gets as far as on an idle one. Beyond the limit the process stays unnamed; `searched`
 * tells.
 */
static struct {
	uint64_t from_ns, used_ns;
} budget;

static void find_process(const struct search *s)
{
	uint64_t now_ns = clock_now_ns(), begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	DIR *dir;

	if (now_ns - budget.from_ns > PERIOD_NS) {
		budget.from_ns = now_ns;
		budget.used_ns = 0;
	}
	dir = budget.used_ns < SEARCH_NS ? opendir("/proc") : NULL;
	s->owner->searched = dir;
	for (struct dirent *e; dir && !s->owner->pid && (e = readdir(dir));) {
		pid_t pid = atoi(e->d_name);

		if (budget.used_ns + clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns >= SEARCH_NS) {
			s->owner->searched = false;
			break;
		}
		if (pid <= 0 || pid == getpid() || !has_socket(s, e->d_name))
			continue;
		s->owner->pid = pid;
		read_comm(pid, s->owner->comm, sizeof(s->owner->comm));
	}
	if (dir)
		closedir(dir);
	budget.used_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

static void search(const uint8_t gid[CTL_GID_BYTES], struct owner *out)
{
	struct search s = { .gid = gid, .is_v4 = gid_is_v4(gid), .owner = out };

	*out = (struct owner){ .searched = true };
	if (s.is_v4)
		find_sockets(&s, AF_INET);
	find_sockets(&s, AF_INET6);
	if (s.count)
		find_process(&s);
}

void owner_find(const uint8_t gid[CTL_GID_BYTES], struct owner *out)
{
	static struct known {
		uint8_t gid[CTL_GID_BYTES];
		int64_t until_ns;
		struct owner owner;
	} known[KNOWN_MAX]; /* the daemon has one thread */
	struct known *oldest = known;
	int64_t now_ns = deadline_now_ns();

	for (struct known *k = known; k < known + KNOWN_MAX; k++) {
		if (k->until_ns > now_ns && !memcmp(k->gid, gid, CTL_GID_BYTES)) {
			*out = k->owner;
			return;
		}
		if (k->until_ns < oldest->until_ns)
			oldest = k;
	}
	search(gid, &oldest->owner);
	memcpy(oldest->gid, gid, CTL_GID_BYTES);
	oldest->until_ns = now_ns + KNOWN_NS;
	*out = oldest->owner;
}

void owner_tell(const struct owner *o, const char *text, char why[CTL_WHY_BYTES])
{
	if (o->pid)
		snprintf(why, CTL_WHY_BYTES, "UDP port %d of %s is taken by process %d (%.30s)",
			 CTL_UDP_PORT, text, (int)o->pid, o->comm);
	else if (o->found && o->uid && (o->searched || o->uid != geteuid()))
		snprintf(why, CTL_WHY_BYTES,
			 "UDP port %d of %s is taken by a process of user %u; if that uses "
			 "Verbatim, too, run verbatimd --system for both",
			 CTL_UDP_PORT, text, (unsigned)o->uid);
	else if (!o->searched)
		snprintf(why, CTL_WHY_BYTES,
			 "UDP port %d of %s is taken; the search for the process that has it was "
			 "given up, as it took too long: `ss -ulpn` may name it",
			 CTL_UDP_PORT, text);
	else
		snprintf(why, CTL_WHY_BYTES,
			 "UDP port %d of %s is taken by no process that can be seen; the kernel's "
			 "soft-RoCE (rdma_rxe) takes it",
			 CTL_UDP_PORT, text);
}
