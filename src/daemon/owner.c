#include "daemon/owner.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "daemon/address.h"

#define INODES_MAX 64
#define KNOWN_MS   1000

/* The sockets in question. */
struct search {
	uint32_t address[4]; /* as /proc/net writes it: words in host order */
	uint32_t mapped[4];  /* of IPv4, the same in udp6 */
	bool is_v4;
	unsigned long inodes[INODES_MAX];
	unsigned count;
	struct owner *owner;
};

static bool is_any(const uint32_t *words, int count)
{
	uint32_t all = 0;

	for (int i = 0; i < count; i++)
		all |= words[i];
	return !all;
}

static bool matches_v4(const struct search *s, const char *hex)
{
	uint32_t word;

	return sscanf(hex, "%8X", &word) == 1 && (word == s->address[0] || !word);
}

static bool matches_v6(const struct search *s, const char *hex)
{
	uint32_t words[4];

	if (sscanf(hex, "%8X%8X%8X%8X", &words[0], &words[1], &words[2], &words[3]) != 4)
		return false;
	return is_any(words, 4) || !memcmp(words, s->is_v4 ? s->mapped : s->address, sizeof(words));
}

static void read_table(struct search *s, const char *path, bool v6)
{
	char line[512], hex[64];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		unsigned port, uid;
		unsigned long inode;

		if (sscanf(line,
			   " %*d: %32[0-9A-F]:%4X %*64[0-9A-F]:%*4X %*X %*X:%*X %*X:%*X %*X %u %*u "
			   "%lu",
			   hex, &port, &uid, &inode) != 4 ||
		    port != CTL_UDP_PORT)
			continue;
		if (!(v6 ? matches_v6(s, hex) : matches_v4(s, hex)))
			continue;
		s->owner->found = true;
		s->owner->uid = uid;
		if (s->count < INODES_MAX)
			s->inodes[s->count++] = inode;
	}
	if (f)
		fclose(f);
}

static bool has_socket(const struct search *s, const char *pid)
{
	char path[300], link[64];
	bool has = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	for (struct dirent *e; dir && !has && (e = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		unsigned long inode;

		link[n > 0 ? n : 0] = '\0';
		if (sscanf(link, "socket:[%lu]", &inode) != 1)
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

static void find_process(const struct search *s)
{
	DIR *dir = opendir("/proc");

	for (struct dirent *e; dir && !s->owner->pid && (e = readdir(dir));) {
		pid_t pid = atoi(e->d_name);

		if (pid <= 0 || pid == getpid() || !has_socket(s, e->d_name))
			continue;
		s->owner->pid = pid;
		read_comm(pid, s->owner->comm, sizeof(s->owner->comm));
	}
	if (dir)
		closedir(dir);
}

static void search(const uint8_t gid[CTL_GID_BYTES], struct owner *out)
{
	struct search s = { .is_v4 = address_is_v4(gid), .owner = out };

	memset(out, 0, sizeof(*out));
	memcpy(s.address, gid + (s.is_v4 ? 12 : 0), s.is_v4 ? 4 : 16);
	memcpy(s.mapped, gid, CTL_GID_BYTES);
	if (s.is_v4)
		read_table(&s, "/proc/net/udp", false);
	read_table(&s, "/proc/net/udp6", true);
	if (s.count)
		find_process(&s);
}

void owner_find(const uint8_t gid[CTL_GID_BYTES], struct owner *out)
{
	static struct {
		uint8_t gid[CTL_GID_BYTES];
		int64_t until_ns;
		struct owner owner;
	} last; /* the daemon has one thread */

	if (memcmp(last.gid, gid, CTL_GID_BYTES) || !deadline_left_ms(last.until_ns)) {
		search(gid, &last.owner);
		memcpy(last.gid, gid, CTL_GID_BYTES);
		last.until_ns = deadline_in_ms(KNOWN_MS);
	}
	*out = last.owner;
}
