#include "verbs/cmd_fd.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "object/handles.h"

#define MAGIC	   "verbatim"
#define PDS_OFFSET 128

struct identity {
	char magic[8];
	struct cmd_fd is;
};

_Static_assert(sizeof(struct identity) <= PDS_OFFSET, "the PDs come behind it");

/*
 * A number that no other process has, nor the one that this was forked off: random, with the PID below
 * it, so that the child of a fork sees that it is not its own. 0: there is none.
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
	/* who comes second takes what the first one made */
	return atomic_compare_exchange_strong(&number, &before, random) ? random : before;
}

bool cmd_fd_is_ours(const struct cmd_fd *cmd_fd)
{
	return cmd_fd->process && cmd_fd->process == own_process();
}

int cmd_fd_create(const char *device, struct cmd_fd *out)
{
	struct identity identity = { .magic = MAGIC };
	int fd = memfd_create("verbatim-context", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	identity.is.process = own_process();
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
	    memcmp(identity.magic, MAGIC, sizeof(identity.magic)) != 0)
		return -EINVAL;
	*out = identity.is;
	out->device[sizeof(out->device) - 1] = 0;
	return 0;
}

void cmd_fd_show_pd(int fd, uint32_t handle, bool there)
{
	uint32_t word = there;

	/* A context that cannot say so any more has PDs that cannot be imported elsewhere: no harm. */
	if (handle < HANDLES &&
	    pwrite(fd, &word, sizeof(word), PDS_OFFSET + 4 * (off_t)handle) != sizeof(word))
		return;
}

bool cmd_fd_shows_pd(int fd, uint32_t handle)
{
	uint32_t word;

	return handle < HANDLES &&
	       pread(fd, &word, sizeof(word), PDS_OFFSET + 4 * (off_t)handle) == sizeof(word) &&
	       word == 1;
}
