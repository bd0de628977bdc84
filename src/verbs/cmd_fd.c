/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/cmd_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "object/dm.h"
#include "object/handles.h"

#define MAGIC                                                                                      \
	{                                                                                          \
		'v', 'e', 'r', 'b', 'a', 't', 'i', 'm'                                             \
	}
#define PDS_OFFSET 128
#define DMS_OFFSET (PDS_OFFSET + 4 * HANDLES)

struct identity {
	char magic[8];
	struct cmd_fd is;
};

static const char magic[8] = MAGIC;

_Static_assert(sizeof(struct identity) <= PDS_OFFSET, "the PDs come after it");
_Static_assert(DMS_OFFSET + 4 * HANDLES <= DM_FILE_START, "then the device memory");

/*
 * A number that no other process has: random bits above the PID. By the PID the child of a fork
 * sees that the number is its parent's, and draws another. 0: the kernel gave no random bits.
 */
static uint64_t own_process(void)
{
	static _Atomic uint64_t number;
	uint64_t pid = (uint64_t)getpid() & 0xffffff, before = atomic_load(&number), random;

	if (before && (before & 0xffffff) == pid)
		return before;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return 0;
	random = random << 24 | pid;
	/* a thread that comes second takes the first thread's number */
	return atomic_compare_exchange_strong(&number, &before, random) ? random : before;
}

bool cmd_fd_is_ours(const struct cmd_fd *cmd_fd)
{
	return cmd_fd->process && cmd_fd->process == own_process();
}

/* Extends the file for device memory. Else that is not in the file, and cannot be imported. */
static void extend_for_dm(int fd)
{
	int seals = F_SEAL_SEAL; /* a process that imports the context must not seal our writes */

	if (!memory_file_extend(fd, DM_FILE_START + (off_t)HANDLES * DM_BYTES_MAX))
		seals |= F_SEAL_SHRINK | F_SEAL_GROW;
	fcntl(fd, F_ADD_SEALS, seals);
}

int cmd_fd_create(const char *device, uint32_t slot, uint64_t cookie, struct cmd_fd *out)
{
	struct identity identity = { .magic = MAGIC };
	int fd;

	if (!memory_file_may_reach(sizeof(identity)))
		return -EFBIG;
	fd = memfd_create("verbatim-context", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	identity.is.process = own_process();
	identity.is.slot = slot;
	identity.is.cookie = cookie;
	extend_for_dm(fd);
	strncpy(identity.is.device, device, sizeof(identity.is.device) - 1);
	if (getrandom(&identity.is.number, sizeof(identity.is.number), 0) ==
		    sizeof(identity.is.number) &&
	    pwrite(fd, &identity, sizeof(identity), 0) == sizeof(identity)) {
		*out = identity.is;
		return fd;
	}
	close(fd);
	return -EIO;
}

int cmd_fd_read(int fd, struct cmd_fd *out)
{
	struct identity identity;

	if (pread(fd, &identity, sizeof(identity), 0) != sizeof(identity) ||
	    memcmp(identity.magic, magic, sizeof(magic)) != 0)
		return -EINVAL;
	*out = identity.is;
	out->device[sizeof(out->device) - 1] = 0;
	return 0;
}

/*
 * Writes an entry. If that fails, other processes cannot import the object. A hole is zeroes, and
 * can be made whatever RLIMIT_FSIZE is by now.
 */
static void write_entry(int fd, off_t table, uint32_t handle, uint32_t word)
{
	off_t at = table + 4 * (off_t)handle;

	if (handle >= HANDLES)
		return;
	if (!word && !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, sizeof(word)))
		return;
	if (!memory_file_may_reach(at + (off_t)sizeof(word)) ||
	    pwrite(fd, &word, sizeof(word), at) != sizeof(word))
		return;
}

static uint32_t shown(int fd, off_t table, uint32_t handle)
{
	uint32_t word;

	if (handle >= HANDLES ||
	    pread(fd, &word, sizeof(word), table + 4 * (off_t)handle) != sizeof(word))
		return 0;
	return word;
}

void cmd_fd_show_pd(int fd, uint32_t handle, uint32_t number)
{
	write_entry(fd, PDS_OFFSET, handle, number);
}

uint32_t cmd_fd_shows_pd(int fd, uint32_t handle)
{
	return shown(fd, PDS_OFFSET, handle);
}

void cmd_fd_show_dm(int fd, uint32_t handle, uint32_t length)
{
	write_entry(fd, DMS_OFFSET, handle, length);
}

uint32_t cmd_fd_shows_dm(int fd, uint32_t handle)
{
	return shown(fd, DMS_OFFSET, handle);
}
