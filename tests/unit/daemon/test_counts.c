/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes have counted, while they live and after they have ended. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/counter.h"
#include "daemon/counts.h"

#define ETH "vrb_eth0"
#define LO  "vrb_lo"

static struct daemon d;
static unsigned cookies;
static unsigned reads; /* of arenas */

struct process {
	struct client client;
	struct fdref arena_ref;
	void *arena;
};

ssize_t __real_pread64(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset)
{
	reads++;
	return __real_pread64(fd, bytes, size, offset);
}

struct observer {
	struct client client;
	int end;
};

static int setup(void **state)
{
	memset(&d, 0, sizeof(d));
	list_init(&d.clients);
	list_init(&d.disconnecting);
	assert_int_equal(loop_init(&d.loop), 0);
	counts_init(&d);
	return 0;
}

static int teardown(void **state)
{
	counts_forget(&d);
	loop_fini(&d.loop);
	return 0;
}

static void take_slot(struct process *p, unsigned slot)
{
	p->client.slot = slot;
	d.by_slot[slot] = &p->client;
	counts_on_slot(&p->client);
}

static void begin(struct process *p, uid_t uid, unsigned slot)
{
	int fd = memfd_create("arena", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, ARENA_BYTES), 0);
	p->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p->arena, MAP_FAILED);
	arena_header(p->arena)->magic = ARENA_MAGIC;
	arena_header(p->arena)->version = ARENA_VERSION;
	arena_header(p->arena)->cookie = ++cookies;
	p->arena_ref = (struct fdref){ .fd = fd, .count = 1 };
	p->client = (struct client){ .daemon = &d,
				     .role = CLIENT_PROCESS,
				     .uid = uid,
				     .pid_fd = eventfd(0, EFD_CLOEXEC),
				     .arena = &p->arena_ref };
	take_slot(p, slot);
}

static void name_device(struct process *p, uint32_t index, const char *name)
{
	snprintf(arena_devices(p->arena)[index].name, CTL_DEVICE_BYTES, "%s", name);
}

/* `n` events of the device, and packets at its entry of the traffic. */
static void count(struct process *p, uint32_t index, uint32_t entry, uint64_t n)
{
	struct arena_traffic *traffic = &arena_traffic(p->arena)[entry];

	arena_counters(p->arena)[arena_device_counters(index) + COUNTER_NAKS_SENT] += n;
	traffic->device = index + 1;
	traffic->sent_unicast += n;
	traffic->sent_bytes += 100 * n;
	traffic->sent_multicast += 2 * n;
	traffic->received_unicast += 3 * n;
	traffic->received_bytes += 300 * n;
	traffic->received_multicast += 4 * n;
}

/* The daemon sees the end of its socket: with pidfd, also that of the process. */
static void lose(struct process *p, bool ended)
{
	uint64_t one = 1;

	if (ended)
		assert_int_equal(write(p->client.pid_fd, &one, sizeof(one)), sizeof(one));
	counts_on_death(&p->client);
	d.by_slot[p->client.slot] = NULL;
}

static void end(struct process *p)
{
	munmap(p->arena, ARENA_BYTES);
	close(p->arena_ref.fd);
	close(p->client.pid_fd);
}

static void observe(struct observer *o, uid_t uid)
{
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	o->end = pair[0];
	o->client = (struct client){
		.daemon = &d, .uid = uid, .role = CLIENT_OBSERVER, .sock = pair[1], .pid_fd = -1
	};
	send_queue_init(&o->client.send_queue);
	list_add_tail(&d.clients, &o->client.in_daemon);
}

static void leave(struct observer *o)
{
	counts_on_death(&o->client);
	list_del(&o->client.in_daemon);
	close(o->client.sock);
	close(o->end);
}

static void ask(struct observer *o, const char *name)
{
	struct fdmsg m = { .body.counters.header = { CTL_COUNTERS, 77 } };

	snprintf(m.body.counters.device, CTL_DEVICE_BYTES, "%s", name);
	counts_on_counters(&o->client, &m);
}

/* False: there is no answer yet. */
static bool is_answered(struct observer *o, uint64_t out[CTL_COUNTS])
{
	struct fdmsg m;
	int rc = fdmsg_recv(o->end, &m);

	if (rc == -EAGAIN)
		return false;
	assert_int_equal(rc, 0);
	assert_int_equal(m.len, sizeof(m.body.counters_reply));
	assert_int_equal(m.body.header.type, CTL_COUNTERS_REPLY);
	assert_int_equal(m.body.header.seq, 77);
	memcpy(out, m.body.counters_reply.counts, sizeof(m.body.counters_reply.counts));
	return true;
}

static void assert_is(const uint64_t out[CTL_COUNTS], uint64_t n)
{
	assert_int_equal(out[CTL_EVENT + COUNTER_NAKS_SENT], n);
	assert_int_equal(out[CTL_EVENT + COUNTER_NAKS_RECEIVED], 0);
	assert_int_equal(out[CTL_SENT_UNICAST], n);
	assert_int_equal(out[CTL_SENT_BYTES], 100 * n);
	assert_int_equal(out[CTL_SENT_MULTICAST], 2 * n);
	assert_int_equal(out[CTL_RECEIVED_UNICAST], 3 * n);
	assert_int_equal(out[CTL_RECEIVED_BYTES], 300 * n);
	assert_int_equal(out[CTL_RECEIVED_MULTICAST], 4 * n);
}

static void assert_answer(struct observer *o, uint64_t n)
{
	uint64_t out[CTL_COUNTS];

	while (!is_answered(o, out))
		loop_turn(&d.loop);
	assert_is(out, n);
}

static void assert_counts(uid_t uid, const char *name, uint64_t n)
{
	struct observer looks;

	observe(&looks, uid);
	ask(&looks, name);
	assert_answer(&looks, n);
	leave(&looks);
}

/* Two devices of one process, one of them in two entries, and the same device in another process.
 */
static void a_device_is_summed_over_processes(void **state)
{
	struct process a, b;

	begin(&a, 7, 1);
	begin(&b, 7, 9);
	name_device(&a, 0, LO);
	name_device(&a, 1, ETH);
	name_device(&b, 0, ETH);
	count(&a, 1, 0, 5);
	count(&a, 0, 1, 10);
	count(&a, 1, 20, 15);
	for (uint32_t i = 2; i < 20; i++)
		arena_traffic(a.arena)[i].device = 16;
	assert_counts(7, ETH, 20);
	count(&b, 0, 0, 100);
	assert_counts(7, ETH, 120);
	assert_counts(7, LO, 10);
	assert_counts(7, "vrb_eth", 0);
	assert_counts(7, "", 0);
	end(&a);
	end(&b);
}

static void users_see_their_own_and_root_all(void **state)
{
	struct process a, b, gone;

	begin(&a, 7, 1);
	begin(&b, 8, 2);
	begin(&gone, 8, 3);
	name_device(&a, 0, ETH);
	name_device(&b, 0, ETH);
	name_device(&gone, 0, ETH);
	count(&a, 0, 0, 1);
	count(&b, 0, 0, 10);
	count(&gone, 0, 0, 100);
	lose(&gone, true);
	assert_counts(7, ETH, 1);
	assert_counts(8, ETH, 110);
	assert_counts(0, ETH, 111);
	end(&a);
	end(&b);
	end(&gone);
}

static void counts_of_ended_processes_stay(void **state)
{
	struct process p;

	for (unsigned i = 1; i <= 3; i++) {
		begin(&p, 7, 1);
		assert_counts(7, ETH, i - 1);
		name_device(&p, 0, ETH);
		count(&p, 0, 0, 1);
		assert_counts(7, ETH, i);
		lose(&p, i != 2); /* of the second the kernel says nothing */
		assert_counts(7, ETH, i);
		end(&p);
	}
	/* as one entry for all, once the slot is another's */
	assert_ptr_equal(d.counts.of_user[7].next->next, &d.counts.of_user[7]);
}

/* It is cut off, counts on, and returns with the same arena: nothing is there twice. */
static void a_process_that_returns_brings_its_counts(void **state)
{
	struct process p;

	begin(&p, 7, 4);
	name_device(&p, 0, ETH);
	count(&p, 0, 0, 5);
	lose(&p, false);
	count(&p, 0, 0, 5);
	assert_counts(7, ETH, 5);
	take_slot(&p, 4);
	assert_counts(7, ETH, 10);
	lose(&p, true);
	assert_counts(7, ETH, 10);
	end(&p);
}

static void what_is_no_arena_counts_nothing(void **state)
{
	struct process other_version, too_short, none;

	begin(&other_version, 7, 1);
	begin(&too_short, 7, 2);
	begin(&none, 7, 3);
	name_device(&other_version, 0, ETH);
	name_device(&too_short, 0, ETH);
	name_device(&none, 0, ETH);
	count(&other_version, 0, 0, 5);
	count(&too_short, 0, 0, 5);
	count(&none, 0, 0, 5);
	arena_header(other_version.arena)->version++;
	arena_header(none.arena)->magic++;
	assert_int_equal(ftruncate(too_short.arena_ref.fd, ARENA_DEVICE_OFFSET + 100), 0);
	assert_counts(7, ETH, 0);
	lose(&other_version, true);
	lose(&too_short, true);
	lose(&none, false);
	assert_counts(7, ETH, 0);
	assert_true(list_empty(&d.counts.of_slot[3]));
	assert_int_equal(d.counts.of_user_count, 0);
	end(&other_version);
	end(&too_short);
	end(&none);
}

/* A user that invents names of devices fills its own room. */
static void names_are_bounded_by_user(void **state)
{
	struct process p;

	for (unsigned i = 0; i < COUNTS_DEVICES + 10; i++) {
		char name[CTL_DEVICE_BYTES];

		begin(&p, 7, 1);
		snprintf(name, sizeof(name), "vrb_%u", i);
		name_device(&p, 0, name);
		count(&p, 0, 0, 1);
		lose(&p, true);
		assert_counts(7, name, i < COUNTS_DEVICES);
		end(&p);
	}
	begin(&p, 8, 1);
	name_device(&p, 0, ETH);
	count(&p, 0, 0, 1);
	lose(&p, true);
	assert_counts(8, ETH, 1);
	end(&p);
}

/* No honest arena has a name twice: the first one counts, and is read once. */
static void a_name_counts_once_of_an_arena(void **state)
{
	struct process p;

	begin(&p, 7, 1);
	for (uint32_t i = 0; i < ARENA_DEVICES; i++)
		name_device(&p, i, ETH);
	for (uint32_t i = 0; i < ARENA_TRAFFIC; i++)
		count(&p, i % ARENA_DEVICES, i, 1);
	reads = 0;
	assert_counts(7, ETH, ARENA_TRAFFIC / ARENA_DEVICES);
	assert_in_range(reads, 1, 3);
	lose(&p, true);
	assert_counts(7, ETH, ARENA_TRAFFIC / ARENA_DEVICES);
	end(&p);
}

/* One arena stands for those of many processes. */
static void fill_slots(struct process *p, unsigned from, unsigned to)
{
	for (unsigned i = from; i <= to; i++)
		d.by_slot[i] = &p->client;
}

/* What is asked for is under way: one sum answers both, also when the first one leaves. */
static void observers_share_a_sum(void **state)
{
	enum { MANY = 2 * COUNTS_READS };
	struct observer first, second, other, elsewhere;
	struct process p;

	begin(&p, 7, 1);
	name_device(&p, 0, ETH);
	name_device(&p, 1, LO);
	count(&p, 0, 0, 2);
	count(&p, 1, 1, 3);
	fill_slots(&p, 1, MANY);
	observe(&first, 7);
	observe(&second, 7);
	observe(&other, 0);
	observe(&elsewhere, 7);
	for (unsigned round = 0; round < 2; round++) {
		reads = 0;
		ask(&first, ETH);
		ask(&second, ETH);
		if (round)
			leave(&first);
		else
			assert_answer(&first, 2 * MANY);
		assert_answer(&second, 2 * MANY);
		assert_int_equal(reads, 3 * MANY);
		loop_turn(&d.loop); /* more may be read */
	}
	reads = 0;
	ask(&second, ETH);
	ask(&other, ETH); /* of all users */
	assert_answer(&second, 2 * MANY);
	assert_answer(&other, 2 * MANY);
	assert_int_equal(reads, 2 * 3 * MANY);
	ask(&second, ETH);
	ask(&elsewhere, LO);
	assert_answer(&second, 2 * MANY);
	assert_answer(&elsewhere, 3 * MANY);
	ask(&second, ETH);
	assert_false(list_empty(&d.counts.sums));
	leave(&second);
	assert_true(list_empty(&d.counts.sums));
	leave(&other);
	leave(&elsewhere);
	end(&p);
}

/* Two observers ask for what many processes have counted, a third for that of one. */
static void sums_take_turns(void **state)
{
	enum { MANY = 3 * COUNTS_READS };
	struct observer first, second, small;
	struct process of_many, one;
	uint64_t out[CTL_COUNTS];

	begin(&of_many, 7, 1);
	begin(&one, 8, MANY + 1);
	name_device(&of_many, 0, ETH);
	name_device(&one, 0, ETH);
	count(&of_many, 0, 0, 2);
	count(&one, 0, 0, 5);
	fill_slots(&of_many, 1, MANY);
	observe(&first, 7);
	observe(&second, 0);
	observe(&small, 8);
	reads = 0;
	ask(&first, ETH);
	ask(&second, ETH);
	ask(&small, ETH);
	assert_in_range(reads, 1, 3 * COUNTS_READS);
	while (!is_answered(&small, out)) {
		assert_false(is_answered(&first, out));
		assert_false(is_answered(&second, out));
		reads = 0;
		loop_turn(&d.loop);
		assert_in_range(reads, 0, 3 * COUNTS_READS);
	}
	assert_is(out, 5);
	assert_false(is_answered(&first, out));
	assert_answer(&first, 2 * MANY);
	assert_answer(&second, 2 * MANY + 5);
	leave(&first);
	leave(&second);
	leave(&small);
	end(&of_many);
	end(&one);
}

/* A sum is under way: it has been at the first slots, not at the last ones. */
static void what_ends_during_a_sum_counts_once(void **state)
{
	enum { LAST = COUNTS_READS + 5 };
	struct process first, last, filler, gone, newcomer;
	struct observer looks;

	begin(&first, 7, 1);
	begin(&filler, 8, 2);
	begin(&last, 7, LAST);
	begin(&gone, 7, LAST + 1);
	name_device(&first, 0, ETH);
	name_device(&last, 0, ETH);
	name_device(&gone, 0, ETH);
	count(&first, 0, 0, 1);
	count(&last, 0, 0, 10);
	count(&gone, 0, 0, 100);
	filler.client.uid = 7;
	fill_slots(&filler, 2, LAST - 1);
	lose(&gone, false);
	observe(&looks, 7);
	ask(&looks, ETH);
	lose(&first, true);
	lose(&last, true);
	begin(&newcomer, 7, LAST + 1);
	name_device(&newcomer, 0, ETH);
	count(&newcomer, 0, 0, 1000);
	assert_answer(&looks, 1111);
	ask(&looks, ETH);
	assert_answer(&looks, 1111);
	leave(&looks);
	end(&first);
	end(&last);
	end(&filler);
	end(&gone);
	end(&newcomer);
}

static void who_asks_while_it_waits_is_cut_off(void **state)
{
	struct observer leaves, hurries, patient;
	uint64_t out[CTL_COUNTS];
	struct process p;

	begin(&p, 7, 1);
	name_device(&p, 0, ETH);
	count(&p, 0, 0, 1);
	fill_slots(&p, 1, CTL_SLOT_MAX);
	observe(&leaves, 7);
	observe(&hurries, 7);
	observe(&patient, 7);
	ask(&leaves, ETH);
	ask(&hurries, ETH);
	ask(&patient, ETH);
	leave(&leaves);
	assert_null(leaves.client.sum);
	ask(&hurries, ETH);
	assert_true(hurries.client.disconnecting);
	counts_on_death(&hurries.client);
	assert_answer(&patient, CTL_SLOT_MAX);
	assert_false(patient.client.disconnecting);
	assert_false(is_answered(&hurries, out));
	ask(&patient, ETH); /* the daemon ends */
	counts_forget(&d);
	patient.client.sum = NULL;
	leave(&hurries);
	leave(&patient);
	end(&p);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_device_is_summed_over_processes),
		TEST(users_see_their_own_and_root_all),
		TEST(counts_of_ended_processes_stay),
		TEST(a_process_that_returns_brings_its_counts),
		TEST(what_is_no_arena_counts_nothing),
		TEST(names_are_bounded_by_user),
		TEST(a_name_counts_once_of_an_arena),
		TEST(observers_share_a_sum),
		TEST(sums_take_turns),
		TEST(what_ends_during_a_sum_counts_once),
		TEST(who_asks_while_it_waits_is_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
