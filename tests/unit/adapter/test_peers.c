/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links to one peer, whose ring the test writes: each record is executed once, whichever thread
 * asks verbatimd for the link, and whenever its answer comes. All other modules are replaced at
 * link time (--wrap).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/peers.h"
#include "adapter/wakeup.h"
#include "base/cause.h"
#include "base/clock.h"
#include "shm/progress.h"
#include "shm/xcopy.h"

#define OWN_SLOT  3
#define PEER_SLOT 5

static struct arena_header *own, *peer;
static int own_fd, peer_fd, wake_fd, memory_fd;
static struct ring_control *control; /* of the peer's ring */
static struct ring_producer tx;
static pid_t peer_pid;
static bool is_known; /* verbatimd does not know of the peer's death yet */
static void (*while_asked)(void);
static void (*while_made)(void); /* a link, which is not in the table yet */
static enum xcopy xcopy;	 /* XCOPY_VM: the peer's PID is valid in this PID namespace */
static unsigned carried_out, closed;

/*
 * ------------------------------------------------------------------------------------------
 * The world.
 */

int __wrap_ctl_peer(struct ctl_client *c, unsigned slot, struct ctl_peer_info *out);
int __wrap_ctl_peer(struct ctl_client *c, unsigned slot, struct ctl_peer_info *out)
{
	void (*meanwhile)(void) = while_asked;

	assert_int_equal(slot, PEER_SLOT);
	if (!is_known)
		return -ENOENT;
	*out = (struct ctl_peer_info){
		.slot = PEER_SLOT,
		.pid = peer_pid,
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

static unsigned questions;
static bool is_busy; /* another thread waits for an answer of verbatimd */

int __wrap_ctl_peer_ask(struct ctl_client *c, unsigned slot);
int __wrap_ctl_peer_ask(struct ctl_client *c, unsigned slot)
{
	assert_int_equal(slot, PEER_SLOT);
	if (is_busy)
		return -EAGAIN;
	questions++;
	return 0;
}

static unsigned told; /* calls of shm_retry_on_peers */

void __wrap_shm_retry_on_peers(void);
void __wrap_shm_retry_on_peers(void)
{
	told++;
}

static unsigned memory_causes;

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

static unsigned held; /* so many looks find another thread at the link */

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

static unsigned broken;

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

/* As verbatimd makes them. */
static int make_memory(const char *name, off_t bytes)
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

static int setup(void **state)
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
	held = carried_out = closed = broken = questions = told = memory_causes = 0;
	return peers_init(NULL, OWN_SLOT, own, wake_fd);
}

static int teardown(void **state)
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

/* The peer sends something. */
static void leave_one(void)
{
	struct record *record = ring_reserve(&tx, 0, 0);

	assert_non_null(record);
	record->header.bytes = 0;
	ring_publish(&tx, record, record_word(RECORD_DATAGRAM, 0, 0));
}

static void die(void)
{
	peer->liveness |= FUTEX_OWNER_DIED;
}

/* The progress thread reads of the death. */
static void hear_of_death(void)
{
	is_known = false;
	peers_on_death(PEER_SLOT, peer_pid);
	peers_free_deferred();
}

static void hear_of_link(void)
{
	struct ctl_peer_info info;

	assert_int_equal(__wrap_ctl_peer(NULL, PEER_SLOT, &info), 0);
	peers_on_link(&info);
}

static void see_it_die(void)
{
	die();
	hear_of_death();
}

static struct link *find(void)
{
	struct link *link = peers_find(PEER_SLOT);

	if (link)
		link_put(link); /* the table's reference is enough here */
	return link;
}

static void test_carries_out_what_the_dead_left(void **state)
{
	assert_non_null(find());
	leave_one();
	peers_progress_all();
	assert_int_equal(carried_out, 1);
	leave_one();
	die();
	assert_null(find());
	assert_int_equal(closed, 0);
	hear_of_death();
	assert_int_equal(carried_out, 2);
	assert_int_equal(closed, 1);
}

/* Whoever holds the link may be through with it, and not look again; or it stays there. */
static void test_a_last_look_gets_the_link(void **state)
{
	assert_non_null(find());
	leave_one();
	held = 2 * PEERS_ROUNDS_MAX;
	peers_progress_last();
	assert_int_equal(carried_out, 1);
	held = UINT32_MAX;
	peers_progress_last();
	see_it_die();
}

/*
 * The peer linked with us, sent a record and died before we had the link; no notice of the death
 * will come.
 */
static void test_carries_out_what_came_with_the_link(void **state)
{
	leave_one();
	die();
	find();
	peers_free_deferred();
	assert_int_equal(carried_out, 1);
	assert_int_equal(closed, 1);
}

/* While a thread asks for the link, another one gets it, and the peer dies. */
static void ask_beside(void)
{
	assert_non_null(find());
	peers_progress_all();
	see_it_die();
}

static void test_carries_out_nothing_twice(void **state)
{
	leave_one();
	leave_one();
	while_asked = ask_beside;
	assert_null(find());
	peers_progress_all();
	peers_free_deferred();
	assert_int_equal(carried_out, 2);
	assert_int_equal(closed, 1);
}

/* The same for a link that was in use for long. */
static void test_asks_for_the_link_of_the_dead(void **state)
{
	assert_non_null(find());
	leave_one();
	peers_progress_all();
	die();
	while_asked = hear_of_death;
	assert_null(find());
	peers_progress_all();
	peers_free_deferred();
	assert_int_equal(carried_out, 1);
	assert_int_equal(closed, 1);
}

static bool look_up(struct link **link)
{
	bool asked;

	*link = peers_look_up(PEER_SLOT, &asked);
	if (*link)
		link_put(*link);
	return asked;
}

/* A sender does not wait for a process that is not known; verbatimd is asked now and then. */
static void test_looks_up_without_waiting(void **state)
{
	uint64_t before_ns = clock_coarse_ns();
	struct link *link;

	for (int i = 0; i < 1000; i++) {
		assert_true(look_up(&link) && !link);
		peers_ask();
	}
	assert_in_range(questions, 1, 1 + (clock_coarse_ns() - before_ns) / PEERS_ASK_NS);
	assert_int_equal(told, 0);
	hear_of_link();
	assert_int_equal(told, 1);
	assert_true(!look_up(&link) && link);
	die();
	assert_true(look_up(&link));
	hear_of_link(); /* late: the slot's next process may be there */
	assert_true(look_up(&link) && !link);
	hear_of_link(); /* verbatimd has not seen its end */
	assert_false(look_up(&link));
	peers_forget_miss(PEER_SLOT);
	assert_true(look_up(&link));
	peers_forget_miss(PEER_SLOT);
	peers_on_none(PEER_SLOT, ENOENT); /* that was asked before */
	assert_true(look_up(&link));
	hear_of_death();
}

/* While another thread uses the connection, the question stays. */
static void test_no_question_is_lost(void **state)
{
	struct link *link;

	is_busy = true;
	assert_true(look_up(&link));
	assert_true(peers_ask() && peers_ask() && !questions);
	is_busy = false;
	assert_true(!peers_ask() && questions == 1);
	assert_true(!peers_ask() && questions == 1);
	assert_int_equal(told, 0);
}

/* A missing process is remembered for a moment, or until verbatimd's notice of a link. */
static void test_remembers_a_miss(void **state)
{
	const struct timespec later = { 0, 2 * PEERS_MISS_NS };
	struct link *link;

	assert_true(look_up(&link));
	peers_ask();
	peers_on_none(PEER_SLOT, ENOENT);
	assert_int_equal(told, 1);
	assert_true(!look_up(&link) && !link);
	peers_ask();
	assert_int_equal(questions, 1);
	nanosleep(&later, NULL);
	assert_true(look_up(&link));
	peers_ask();
	assert_int_equal(questions, 2);
	peers_on_none(PEER_SLOT, ENOENT);
	hear_of_link();
	assert_true(!look_up(&link) && link);
	see_it_die();
}

/* The process may have no more addresses (RLIMIT_AS): verbatimd is not asked again at once. */
static void test_a_link_that_cannot_be_mapped_is_a_miss(void **state)
{
	const struct timespec later = { 0, 2 * PEERS_MISS_NS };
	struct rlimit before, none;
	struct ctl_peer_info info;
	struct link *link;

	assert_true(look_up(&link));
	peers_ask();
	assert_int_equal(__wrap_ctl_peer(NULL, PEER_SLOT, &info), 0);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	peers_on_link(&info);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(told, 1);
	assert_int_equal(memory_causes, 1);
	assert_true(!look_up(&link) && !link);
	nanosleep(&later, NULL);
	assert_true(look_up(&link));
	peers_ask();
	assert_int_equal(questions, 2);
	hear_of_link();
	assert_true(!look_up(&link) && link);
	see_it_die();
}

static struct link *quicker;

static void be_quicker(void)
{
	quicker = find();
}

static void find_the_quicker_one(void)
{
	struct link *link = find();

	assert_non_null(link);
	assert_ptr_equal(link, quicker);
	leave_one();
	peers_progress_all();
	assert_int_equal(carried_out, 1);
	see_it_die();
	assert_int_equal(closed, 1);
}

static void test_asked_twice_at_once(void **state)
{
	while_asked = be_quicker;
	find_the_quicker_one();
}

/* verbatimd has forgotten what it offered before, and offers another memory. */
static void be_quicker_with_other_memory(void)
{
	int offered = memory_fd;

	memory_fd = make_memory("other link", LINK_BYTES_OF(RING_BYTES_MIN));
	be_quicker();
	close(memory_fd);
	memory_fd = offered;
}

/* The peer may know the memory alone that the slower thread was offered. */
static void test_asked_twice_with_other_memory(void **state)
{
	while_made = be_quicker_with_other_memory;
	find_the_quicker_one();
}

/* It lives in another PID namespace. */
static void test_peer_with_our_pid(void **state)
{
	struct link *link;

	peer_pid = getpid();
	leave_one();
	link = find();
	assert_non_null(link);
	assert_int_not_equal(link->xcopy, XCOPY_SELF);
	peers_progress_all();
	assert_int_equal(carried_out, 1);
	see_it_die();
	assert_int_equal(closed, 1);
}

static bool publishes(void *arena, uint64_t what)
{
	return arena_hazards(arena)[3].what == what;
}

/* The peer is a process that ends by end_child. */
static void start_peer(void)
{
	peer_pid = fork();
	if (!peer_pid)
		for (;;)
			pause();
}

static void end_child(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/*
 * A peer is killed in the middle of a copy by a thread that ends later than others: its hazard
 * counts until all its threads have ended, whether its death was noticed or not.
 */
static void test_the_dead_do_not_copy(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;

	xcopy = XCOPY_VM;
	start_peer();
	assert_non_null(find());
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	arena_hazards(peer)[3].what = what;
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	die();
	for (int looks = 0; looks < 3; looks++) {
		assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
		usleep(50000);
	}
	end_child(peer_pid);
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	assert_int_equal(closed, 0);
	arena_hazards(own)[3].what = what;
	assert_int_equal(peers_visit_arenas(publishes, what), getpid());
	hear_of_death();
}

/* A zombie, which its parent has not reaped, does not copy either. */
static void test_zombies_do_not_copy(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;
	siginfo_t info;

	xcopy = XCOPY_VM;
	peer_pid = fork();
	if (!peer_pid)
		_exit(0);
	assert_non_null(find());
	arena_hazards(peer)[3].what = what;
	die();
	assert_int_equal(waitid(P_PID, (id_t)peer_pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	assert_int_equal(waitpid(peer_pid, NULL, 0), peer_pid);
	hear_of_death();
}

/* A PID that no process has here may exist in another PID namespace. */
static void test_pids_of_other_namespaces_say_nothing(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;

	peer_pid = fork();
	if (!peer_pid)
		_exit(0);
	assert_int_equal(waitpid(peer_pid, NULL, 0), peer_pid);
	assert_non_null(find());
	arena_hazards(peer)[3].what = what;
	die();
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	hear_of_death();
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
}

static void test_who_is_known_to_be_dead_does_not_copy(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;

	assert_non_null(find());
	arena_hazards(peer)[3].what = what;
	see_it_die();
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
}

static bool is_asked_for(struct link *known)
{
	struct link *link;
	unsigned before = questions;

	look_up(&link);
	peers_ask();
	assert_ptr_equal(link, known);
	return questions > before;
}

/*
 * A new verbatimd is asked for all links, and gets the questions to the last one, without waiting.
 * It does not know the peer, which is dead.
 */
static void test_introduces_without_waiting(void **state)
{
	struct link *link;

	assert_true(is_asked_for(NULL));
	assert_false(is_asked_for(NULL));
	peers_introduce_again(true);
	assert_true(is_asked_for(NULL));

	hear_of_link();
	assert_false(look_up(&link));
	assert_false(is_asked_for(link));
	is_known = false; /* nor is ctl_peer called, which would wait for an answer */
	peer->liveness = 0;
	link->pid = INT32_MAX;
	assert_true(peers_introduce_again(true));
	assert_true(is_asked_for(link));
	assert_true(peers_introduce_again(false));
	assert_false(is_asked_for(link));
	peers_on_none(PEER_SLOT, ENOENT);
	assert_int_equal(closed, 1); /* its PID is no process's */
	assert_false(peers_introduce_again(false));
}

/* A living peer is asked for until verbatimd knows it; another PID in its answer is ignored. */
static void test_introduces_later_who_is_not_back(void **state)
{
	struct link *link = find();

	assert_non_null(link);
	assert_true(peers_introduce_again(true));
	assert_true(is_asked_for(link));
	peers_on_none(PEER_SLOT, ENOENT);
	assert_true(peers_introduce_again(false));
	assert_true(is_asked_for(link));
	peer_pid++;
	hear_of_link();
	peer_pid--;
	assert_false(peers_introduce_again(false));
	assert_false(is_asked_for(link));
	assert_int_equal(closed, 0);
	hear_of_death();
	see_it_die();
	assert_int_equal(closed, 1);
}

/* When verbatimd is stopped, or has ended, no notice comes. */
static void test_sees_deaths_without_verbatimd(void **state)
{
	uint64_t now = PEERS_LOOK_NS;

	assert_true(peers_look_due_ns() == UINT64_MAX);
	xcopy = XCOPY_VM;
	start_peer();
	assert_non_null(find());
	leave_one();
	peers_look_for_deaths(now);
	assert_int_equal(closed, 0);
	die();
	assert_true(peers_look_due_ns() == 2 * PEERS_LOOK_NS);
	for (int looks = 0; looks < 3; looks++) { /* one of its threads may still copy */
		peers_look_for_deaths(now += PEERS_LOOK_NS);
		assert_int_equal(closed, 0);
	}
	end_child(peer_pid);
	peers_look_for_deaths(now + PEERS_LOOK_NS - 1);
	assert_int_equal(closed, 0);
	peers_look_for_deaths(now + PEERS_LOOK_NS);
	assert_int_equal(closed, 1);
	assert_int_equal(carried_out, 1);
	assert_true(peers_look_due_ns() == UINT64_MAX);
	hear_of_death(); /* late: nothing is left to end */
	assert_int_equal(closed, 1);
}

/* The kernel cannot be asked about its threads: two looks have to see it dead. */
static void test_sees_deaths_in_other_pid_namespaces(void **state)
{
	assert_non_null(find());
	peers_look_for_deaths(PEERS_LOOK_NS);
	die();
	peers_look_for_deaths(2 * PEERS_LOOK_NS);
	assert_int_equal(closed, 0);
	peers_look_for_deaths(3 * PEERS_LOOK_NS);
	assert_int_equal(closed, 1);
}

/* Its process lives on, and may copy until it has ended. */
static void test_ends_a_broken_link(void **state)
{
	const uint64_t what = (uint64_t)OWN_SLOT << 32 | 0x123400;
	uint64_t now = PEERS_LOOK_NS;
	struct link *link;

	xcopy = XCOPY_VM;
	start_peer();
	link = find();
	assert_non_null(link);
	peers_look_for_deaths(now);
	assert_int_equal(broken, 0);
	memset(tx.data, 0xff, 64);
	peers_progress_all();
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(broken, 1);
	assert_ptr_equal(find(), link);
	assert_int_equal(questions, 0);
	arena_hazards(peer)[3].what = what;
	assert_false(peers_introduce_again(true));
	hear_of_link(); /* of another verbatimd, whom the peer has asked */
	assert_ptr_equal(find(), link);
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	assert_int_equal(broken, 2); /* for QPs that were connected since */
	assert_int_equal(closed, 0);
	die();
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(peers_visit_arenas(publishes, what), peer_pid);
	end_child(peer_pid);
	peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(peers_visit_arenas(publishes, what), 0);
	assert_int_equal(closed, 1);
	is_known = false;
	assert_null(find());
}

/* The peer has read our records: nobody needs their pages. */
static void test_gives_back_what_rests(void **state)
{
	uint64_t now = PEERS_LOOK_NS;
	struct link *link = find();

	assert_non_null(link);
	for (int i = 0; i < 5; i++) {
		struct record *record = ring_reserve(&link->tx, RECORD_PAYLOAD_MAX, 0);

		assert_non_null(record);
		record->header.bytes = RECORD_PAYLOAD_MAX;
		ring_publish(&link->tx, record, record_word(OPERATION_SEND, 0, RECORD_PAYLOAD_MAX));
	}
	atomic_store(&link->tx.control->head, link->tx.tail);
	for (int looks = 0; looks < LINK_RESTS; looks++)
		peers_look_for_deaths(now += PEERS_LOOK_NS);
	assert_int_equal(link->tx.given, 0);
	peers_look_for_deaths(now + PEERS_LOOK_NS);
	assert_int_equal(link->tx.given, link->tx.tail);
	assert_int_equal(broken, 0);
	see_it_die();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(carries_out_what_the_dead_left),
		TEST(a_last_look_gets_the_link),
		TEST(carries_out_what_came_with_the_link),
		TEST(carries_out_nothing_twice),
		TEST(asks_for_the_link_of_the_dead),
		TEST(looks_up_without_waiting),
		TEST(no_question_is_lost),
		TEST(remembers_a_miss),
		TEST(introduces_without_waiting),
		TEST(introduces_later_who_is_not_back),
		TEST(a_link_that_cannot_be_mapped_is_a_miss),
		TEST(asked_twice_at_once),
		TEST(asked_twice_with_other_memory),
		TEST(peer_with_our_pid),
		TEST(the_dead_do_not_copy),
		TEST(zombies_do_not_copy),
		TEST(pids_of_other_namespaces_say_nothing),
		TEST(who_is_known_to_be_dead_does_not_copy),
		TEST(sees_deaths_without_verbatimd),
		TEST(sees_deaths_in_other_pid_namespaces),
		TEST(ends_a_broken_link),
		TEST(gives_back_what_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
