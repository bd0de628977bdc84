/* SPDX-License-Identifier: BSD-2-Clause */
#include "peers_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adapter/wakeup.h"
#include "base/cause.h"
#include "shm/progress.h"

struct arena_header *own, *peer;
int memory_fd;
struct ring_producer tx;
pid_t peer_pid;
pid_t told_pid;
bool is_known;
void (*while_asked)(void);
void (*while_made)(void);
enum xcopy xcopy;
unsigned carried_out, closed;
static int own_fd, peer_fd, wake_fd;
static struct ring_control *control; /* of the peer's ring */

/*
 * ------------------------------------------------------------------------------------------
 * The world.
 */

int __wrap_ctl_peer(struct ctl_client *c, unsigned slot, struct ctl_peer_info *out)
{
	void (*meanwhile)(void) = while_asked;

	assert_int_equal(slot, PEER_SLOT);
	if (!is_known)
		return -ENOENT;
	peer->pid = (uint32_t)peer_pid;
	*out = (struct ctl_peer_info){
		.slot = PEER_SLOT,
		.pid = told_pid ? told_pid : peer_pid,
		.side = 0,
		.arena_fd = fcntl(peer_fd, F_DUPFD_CLOEXEC, 0),
		.wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0),
		.link_fd = fcntl(memory_fd, F_DUPFD_CLOEXEC, 0),
		.heap_fd = -1,
	};
	while_asked = NULL;
	if (meanwhile)
		meanwhile();
	return 0;
}

unsigned questions;
bool is_busy;

int __wrap_ctl_peer_ask(struct ctl_client *c, unsigned slot);
int __wrap_ctl_peer_ask(struct ctl_client *c, unsigned slot)
{
	assert_int_equal(slot, PEER_SLOT);
	if (is_busy)
		return -EAGAIN;
	questions++;
	return 0;
}

unsigned told;

void __wrap_shm_retry_on_peers(void);
void __wrap_shm_retry_on_peers(void)
{
	told++;
}

unsigned memory_causes;

void __wrap_cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...);
void __wrap_cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	memory_causes += cause == CAUSE_MEMORY_EXHAUSTED;
}

static void carry_out(struct link *link)
{
	struct record_header header;

	while (ring_peek(&link->rx, &header)) {
		ring_advance(&link->rx, &header);
		carried_out++;
	}
}

unsigned held;

int __wrap_progress_link(struct link *link);
int __wrap_progress_link(struct link *link)
{
	if (link->slot == PEER_SLOT && held) {
		held--;
		return -EBUSY;
	}
	if (link->alive)
		carry_out(link);
	return 0;
}

void __wrap_progress_on_death(struct link *link);
void __wrap_progress_on_death(struct link *link)
{
	carry_out(link);
	closed++;
}

unsigned broken;

void __wrap_progress_on_broken_ring(struct link *link);
void __wrap_progress_on_broken_ring(struct link *link)
{
	link->broken = true;
	link->alive = false;
	broken++;
}

void __wrap_xcopy_probe(struct link *link);
void __wrap_xcopy_probe(struct link *link)
{
	void (*meanwhile)(void) = while_made;

	if (link->slot != PEER_SLOT)
		return;
	link->xcopy = xcopy;
	link->xcopy_error = xcopy == XCOPY_NONE ? ESRCH : 0;
	while_made = NULL;
	if (meanwhile)
		meanwhile();
}

void __wrap_wakeup_kick(void);
void __wrap_wakeup_kick(void)
{
}

void __wrap_wakeup_send(void);
void __wrap_wakeup_send(void)
{
}

/* ------------------------------------------------------------------------------------------ */

int make_memory(const char *name, off_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static struct arena_header *make_arena(int *fd)
{
	struct arena_header *header;

	*fd = make_memory("arena", ARENA_BYTES);
	header = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(header, MAP_FAILED);
	header->magic = ARENA_MAGIC;
	header->version = ARENA_VERSION;
	header->liveness = 1;
	return header;
}

int setup(void **state)
{
	own = make_arena(&own_fd);
	peer = make_arena(&peer_fd);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memory_fd = make_memory("link", LINK_BYTES_OF(RING_BYTES_MIN));
	control = mmap(NULL, LINK_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	assert_ptr_not_equal(control, MAP_FAILED);
	tx = (struct ring_producer){ .bytes = RING_BYTES_MIN, .control = &control[1] };
	tx.data = ring_map(memory_fd, LINK_CONTROL_BYTES + tx.bytes, tx.bytes);
	assert_ptr_not_equal(tx.data, MAP_FAILED);
	is_known = true;
	peer_pid = getpid() + 1;
	xcopy = XCOPY_NONE;
	told_pid = 0;
	held = carried_out = closed = broken = questions = told = memory_causes = 0;
	return peers_init(NULL, OWN_SLOT, own, wake_fd);
}

int teardown(void **state)
{
	struct link *self = peers_find(OWN_SLOT);

	peers_reset_after_fork();
	link_close(self);
	link_put(self);
	ring_unmap(tx.data, tx.bytes);
	munmap(control, LINK_CONTROL_BYTES);
	munmap(own, ARENA_BYTES);
	munmap(peer, ARENA_BYTES);
	close(own_fd);
	close(peer_fd);
	close(wake_fd);
	close(memory_fd);
	return 0;
}

void leave_one(void)
{
	struct record *record = ring_reserve(&tx, 0, 0);

	assert_non_null(record);
	record->header.bytes = 0;
	ring_publish(&tx, record, record_word(RECORD_DATAGRAM, 0, 0));
}

void die(void)
{
	peer->liveness |= FUTEX_OWNER_DIED;
}

void hear_of_death(void)
{
	is_known = false;
	peers_on_death(PEER_SLOT, peer_pid);
	peers_free_deferred();
}

void hear_of_link(void)
{
	struct ctl_peer_info info;

	assert_int_equal(__wrap_ctl_peer(NULL, PEER_SLOT, &info), 0);
	peers_on_link(&info);
}

void see_it_die(void)
{
	die();
	hear_of_death();
}

struct link *find(void)
{
	struct link *link = peers_find(PEER_SLOT);

	if (link)
		link_put(link); /* the table's reference is enough here */
	return link;
}
