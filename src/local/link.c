#include "local/link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/syscall.h"
#include "base/uncancelled.h"
#include "local/local_qp.h"

static struct lock pool_lock = LOCK_INITIALIZER;
static struct link *pool; /* guarded by pool_lock */

static struct link *take_struct(void)
{
	struct link *link;

	lock_acquire(&pool_lock);
	link = pool;
	if (link)
		pool = link->next_free;
	lock_release(&pool_lock);
	if (link)
		return link;
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	link->in_flight = calloc(IN_FLIGHT_MAX, sizeof(*link->in_flight));
	if (!link->in_flight) {
		free(link);
		return NULL;
	}
	lock_init(&link->rx_lock);
	lock_init(&link->tx_lock);
	lock_init(&link->wait_lock);
	return link;
}

static void give_struct(struct link *link)
{
	lock_acquire(&pool_lock);
	link->next_free = pool;
	pool = link;
	lock_release(&pool_lock);
}

struct link *link_create(uint32_t slot, pid_t pid, int side, int shared_fd, void *arena, int wake_fd,
			 int heap_fd) NO_LOCK_CHECK
{
	struct link *link = take_struct();
	bool own = side == LINK_SELF;
	int tx_side = own ? 0 : side, rx_side = own ? 0 : !side;
	struct ring_control *control;

	if (!link)
		return NULL;
	link->shared = mmap(NULL, LINK_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (link->shared == MAP_FAILED)
		goto give_back_struct;
	link->tx = (struct ring_producer){
		.data = ring_map(shared_fd, LINK_CONTROL_BYTES + (size_t)tx_side * RING_BYTES),
	};
	if (link->tx.data == MAP_FAILED)
		goto unmap_control;
	link->rx = (struct ring_consumer){
		.data = ring_map(shared_fd, LINK_CONTROL_BYTES + (size_t)rx_side * RING_BYTES),
		.hold = UINT64_MAX,
	};
	if (link->rx.data == MAP_FAILED)
		goto unmap_tx;
	control = link->shared;
	link->tx.control = &control[tx_side];
	link->rx.control = &control[rx_side];
	link->slot = slot;
	link->pid = pid;
	link->arena = arena;
	link->peer = arena_header(arena);
	link->peer_qps = arena_qps(arena);
	link->peer_keys = arena_keys(arena);
	link->wake_fd = wake_fd;
	heap_init(&link->heap, heap_fd);
	link->heap_of = getpid();
	link->acked = link->rx_end = 0;
	link->carried_out = 0;
	link->flight_head = link->flight_tail = 0;
	link->reach = own ? REACH_SELF : REACH_NONE;
	list_init(&link->blocked);
	list_init(&link->turned);
	list_init(&link->orphans);
	link->blocked_count = link->turned_count = link->answering_count = 0;
	list_init(&link->answering);
	link->waiting = link->again = false;
	link->references = 1;
	link->dying = false;
	link->ended_ns = 0;
	link->late_acked = 0;
	return link;

unmap_tx:
	ring_unmap(link->tx.data);
unmap_control:
	munmap(link->shared, LINK_CONTROL_BYTES);
give_back_struct:
	give_struct(link);
	return NULL;
}

void link_start(struct link *link)
{
	atomic_store_explicit(&link->rx.control->begun, true, memory_order_relaxed);
	link->alive = true;
}

bool link_is_spent(const struct link *link)
{
	return atomic_load_explicit(&link->rx.control->begun, memory_order_relaxed);
}

void link_reset_after_fork(void) NO_LOCK_CHECK
{
	lock_init(&pool_lock);
	pool = NULL;
}

void link_get(struct link *link)
{
	atomic_fetch_add(&link->references, 1);
}

/* Who would have been told is dead, or will be told of nothing any more. */
static void drop_orphans(struct link *link)
{
	while (!list_empty(&link->orphans)) {
		struct list *first = link->orphans.next;

		list_del(first);
		free(list_entry(first, struct orphan_nak, node));
	}
}

void link_put(struct link *link)
{
	if (atomic_fetch_sub(&link->references, 1) != 1)
		return;

	UNCANCELLED;

	drop_orphans(link); /* no QP can leave one any more */
	if (link->reach != REACH_SELF)
		munmap(link->arena, ARENA_BYTES);
	close(link->wake_fd);
	if (link->heap_of == getpid())
		heap_fini(&link->heap);
	else
		heap_forget(&link->heap);
	give_struct(link);
}

uint64_t link_sent(struct link *link)
{
	uint64_t position;

	lock_acquire(&link->tx_lock);
	position = link->tx.tail;
	lock_release(&link->tx_lock);
	return position;
}

bool link_carried_out(struct link *link, uint64_t position)
{
	bool carried_out = true;

	lock_acquire(&link->tx_lock);
	if (link->alive)
		carried_out = atomic_load_explicit(&link->tx.control->acked,
						   memory_order_acquire) >= position;
	lock_release(&link->tx_lock);
	return carried_out;
}

void link_bury(struct link *link)
{
	lock_acquire(&link->rx_lock);
	lock_acquire(&link->tx_lock);
	link->alive = false;
	link->rx.broken = link->tx.broken = true;
	ring_unmap(link->tx.data);
	ring_unmap(link->rx.data);
	munmap(link->shared, LINK_CONTROL_BYTES);
	lock_release(&link->tx_lock);
	lock_release(&link->rx_lock);
	link_put(link);
}

void link_wake(struct link *link)
{
	uint64_t one = 1;

	if (sys_write(link->wake_fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: the counter is full, so it is awake already */
}
