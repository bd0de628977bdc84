/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/hold.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cause.h"
#include "memory/maps.h"

/* A program with more threads has some that never stand. */
#define STANDING_MAX	4
#define OWN_THREADS	1 /* the progress thread, at first */
#define HELD		(1u << 31)
#define PAUSE_NS	10000000    /* a thread stands no longer, unless it is held */
#define WANT_NS		5000000ull  /* threads are asked to stand for so long, */
#define WANT_PAUSE_MIN	10000000ull /* and then not for so long, twice as long each time */
#define WANT_PAUSE_MAX	60000000000ull
#define WANT_PAUSE_TELL 1000000000ull
#define WANT_ALONE	1000000000ull /* the only thread is asked until it comes */
#define GO_NS		1000000ull /* between two holds the program's threads go on for so long */
/*
 * What a thread uses while it stands: frames below that of hold_stand, and struct hold_stay in the
 * frame above it; errno; its control block in the C library, beside which the kernel stores where
 * it runs (rseq(2)).
 */
#define FRAMES (16ul << 10)
#define STAY   1024ul
#define BLOCK  2304ul
#define RSEQ   32ul

/*
 * HELD, and the number of threads that stand. Barrier HOLD: a thread adds itself after its stores
 * (release), the progress thread sets HELD (acquire) before it looks at pages.
 */
static _Atomic uint32_t word;
static _Atomic uint32_t leaving; /* threads in hold_go: no hold begins before they are gone */
/* Of threads that stand; stack 0: free. */
static struct place {
	_Atomic uintptr_t stack;
	uintptr_t start, end; /* of its thread-local memory */
} places[STANDING_MAX];
_Atomic uint32_t hold_wanted;
static _Atomic uint32_t own_threads = OWN_THREADS;

static void no_kick(void)
{
}

static void (*kick)(void) = no_kick;

static void futex(_Atomic uint32_t *at, int operation, uint32_t value, const struct timespec *limit)
{
	syscall(SYS_futex, at, operation, value, limit, NULL, 0);
}

extern const ptrdiff_t __rseq_offset __attribute__((weak)); /* since glibc 2.35 */

static void widen(uintptr_t *start, uintptr_t *end, uintptr_t at, size_t bytes)
{
	if (at < *start)
		*start = at;
	if (at + bytes > *end)
		*end = at + bytes;
}

/* The block begins at the thread pointer on x86, and ends there on arm64. */
void hold_find_thread_local(uintptr_t *start, uintptr_t *end)
{
	uintptr_t self = (uintptr_t)__builtin_thread_pointer();

#ifdef __x86_64__
	*start = self;
#else
	*start = self - BLOCK;
#endif
	*end = *start + BLOCK;
	widen(start, end, (uintptr_t)&errno, sizeof(errno));
	if (&__rseq_offset)
		widen(start, end, self + (uintptr_t)__rseq_offset, RSEQ);
}

static int take_place(void)
{
	for (int i = 0; i < STANDING_MAX; i++) {
		uintptr_t none = 0;

		if (atomic_compare_exchange_strong(&places[i].stack, &none,
						   (uintptr_t)__builtin_frame_address(0))) {
			hold_find_thread_local(&places[i].start, &places[i].end);
			return i;
		}
	}
	return -1;
}

static void let_go(const struct hold_stay *stay)
{
	pthread_sigmask(SIG_SETMASK, &stay->signals, NULL);
	pthread_setcancelstate(stay->cancel_state, NULL);
}

void hold_stand(struct hold_stay *stay)
{
	sigset_t all;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &stay->cancel_state);
	/* The C library keeps its own signals out of it: setuid waits for each thread's handler. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &stay->signals);
	stay->place = take_place();
	if (stay->place >= 0)
		atomic_fetch_add(&word, 1);
	else
		let_go(stay);
}

static void leave(const struct hold_stay *stay)
{
	uint32_t seen = atomic_load(&word);

	atomic_fetch_add(&leaving, 1);
	while (seen & HELD || !atomic_compare_exchange_weak(&word, &seen, seen - 1))
		if (seen & HELD) {
			futex(&word, FUTEX_WAIT_PRIVATE, seen, NULL);
			seen = atomic_load(&word);
		}
	atomic_fetch_sub(&leaving, 1);
	atomic_store(&places[stay->place].stack, 0);
}

void hold_go(struct hold_stay *stay)
{
	if (stay->place < 0)
		return;
	leave(stay);
	let_go(stay);
}

void hold_pause(void)
{
	const struct timespec limit = { .tv_nsec = PAUSE_NS };
	struct hold_stay stay;
	int saved = errno;

	hold_stand(&stay);
	if (stay.place >= 0) {
		kick();
		futex(&hold_wanted, FUTEX_WAIT_PRIVATE, 1, &limit);
	}
	hold_go(&stay);
	errno = saved;
}

void hold_init(void (*wake_progress_thread)(void))
{
	kick = wake_progress_thread;
}

/* The thread that forks may stand in its parent (migrate_before_fork has ended that). */
void hold_reset_after_fork(void)
{
	atomic_store(&word, 0);
	atomic_store(&leaving, 0);
	atomic_store(&hold_wanted, 0);
	atomic_store(&own_threads, OWN_THREADS);
	for (int i = 0; i < STANDING_MAX; i++)
		atomic_store(&places[i].stack, 0);
}

/* All threads of the process are the library's own, and so many others. */
static bool has_threads(unsigned others)
{
	uint64_t threads;

	return !status_number("Threads", &threads) && threads == atomic_load(&own_threads) + others;
}

void hold_add_own_thread(void)
{
	atomic_fetch_add(&own_threads, 1);
}

bool hold_is_alone(void)
{
	return has_threads(1);
}

bool hold_begin(void)
{
	uint32_t standing = atomic_load(&word);

	if (!standing || atomic_load(&leaving) ||
	    !atomic_compare_exchange_strong(&word, &standing, standing | HELD))
		return false;
	if (has_threads(standing))
		return true;
	hold_end();
	return false;
}

void hold_end(void)
{
	atomic_fetch_and(&word, ~HELD);
	futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

bool hold_covers(uintptr_t start, uintptr_t end)
{
	for (int i = 0; i < STANDING_MAX; i++) {
		uintptr_t stack = atomic_load(&places[i].stack);

		if (stack && ((stack + STAY > start && stack - FRAMES < end) ||
			      (places[i].end > start && places[i].start < end)))
			return true;
	}
	return false;
}

/*
 * Asks threads to stand, if the program has so few that all of them may. Takes some microseconds.
 */
static void want(bool wanted)
{
	uint64_t threads;
	uint32_t value = wanted && !status_number("Threads", &threads) &&
			 threads <= STANDING_MAX + atomic_load(&own_threads);

	if (atomic_exchange(&hold_wanted, value) && !value)
		futex(&hold_wanted, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

static void explain_wait(void)
{
	static bool told;

	if (!told)
		cause_report(CAUSE_REGION_STAYS, 0,
			     "some threads of the program have not been in verbs lately");
	told = true;
}

uint64_t hold_ask(bool needed, uint64_t now)
{
	static uint64_t pause_ns, until;
	static bool asked, asked_alone;
	bool is_held = atomic_load(&word) & HELD;

	if (is_held || !needed) {
		pause_ns = 0;
		until = is_held && needed ? now + GO_NS : 0;
		if (asked)
			want(false);
		asked = asked_alone = false;
		return needed ? until : HOLD_NEVER;
	}
	if (asked_alone && atomic_load(&word) && !hold_is_alone())
		until = 0; /* it came, but it has made threads */
	if (now < until)
		return until;
	asked_alone = hold_is_alone();
	if (asked_alone) {
		asked = true;
		until = now + WANT_ALONE;
	} else {
		asked = !asked;
		if (!asked)
			pause_ns = !pause_ns		       ? WANT_PAUSE_MIN
				   : pause_ns < WANT_PAUSE_MAX ? pause_ns * 2
							       : pause_ns;
		if (pause_ns >= WANT_PAUSE_TELL)
			explain_wait();
		until = now + (asked ? WANT_NS : pause_ns);
	}
	want(asked);
	return until;
}
