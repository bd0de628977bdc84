/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/peers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "adapter/hot_links.h"
#include "adapter/liveness.h"
#include "adapter/peer_link.h"
#include "adapter/wakeup.h"
#include "base/cause.h"
#include "base/clock.h"
#include "base/uncancelled.h"
#include "shm/progress.h"
#include "shm/retry.h"

static struct lock links_lock = LOCK_INITIALIZER;
static struct link *links[SLOT_COUNT] GUARDED_BY(links_lock);
/*
 * Questions about a slot. verbatimd is asked for the process in it (wanted, asked, none). A new
 * verbatimd is asked for each linked peer, which introduces the two ends to it, so that it tells
 * each of the other's death. Times are of CLOCK_MONOTONIC_COARSE; 0: none.
 */
static struct {
	uint64_t asked_until_ns; /* verbatimd is being asked, or soon will be */
	uint64_t none_until_ns;	 /* verbatimd has answered that there is no process */
	/*
	 * There is one, but no link to it can be made at present: verbatimd is asked again after
	 * none_until_ns, and requests wait, until this
	 */
	uint64_t refused_until_ns;
	bool wanted;	  /* the progress thread has to ask */
	bool out_of_date; /* the question under way is older than a connection */
	/* in the last answer that was about a dead process its arena_file, or the memory that the
	 * process in this slot has left */
	uint64_t void_file;
	enum {
		INTRODUCED, /* or never linked */
		ASKED,	    /* the new verbatimd, or soon will be */
		NOT_BACK,   /* the peer has not reconnected: verbatimd is asked again, later */
	} introduction;
} questions[SLOT_COUNT] GUARDED_BY(links_lock);
static _Atomic bool any_wanted;
static struct link *deferred GUARDED_BY(links_lock); /* by next_free; see peers_free_deferred */

static struct ctl_client *ctl;
static uint32_t own_slot;
static bool self_is_active GUARDED_BY(links_lock);
static void *own_arena;
static uint64_t look_ns; /* when peers_look_for_deaths is due */

int peers_init(struct ctl_client *client, uint32_t slot, void *arena, int wake_fd)
{
	struct link *self;
	int error = peer_link_make_self(slot, arena, wake_fd, &self);

	ctl = client;
	own_slot = slot;
	own_arena = arena;
	if (error)
		return error;
	lock_acquire(&links_lock);
	links[slot] = self;
	link_start(self); /* find_alive adds it to those that are polled */
	lock_release(&links_lock);
	return 0;
}

void peers_fini(void)
{
	struct link *self;

	lock_acquire(&links_lock);
	self = links[own_slot];
	links[own_slot] = NULL;
	lock_release(&links_lock);
	own_arena = NULL;
	if (self)
		link_close(self);
}

/* Both ends may have left something in the memory that the link has moved to. */
static void wake_both_ends(struct link *link)
{
	wakeup_kick();
	link_wake(link);
}

/* The link ended with its process. (The process at the other end of a broken one may live.) */
static bool has_died(const struct link *link)
{
	return !link->alive && !link->broken;
}

/*
 * True even before verbatimd's notice of the death is read. By then another process may have the
 * slot.
 */
static bool is_dead(const struct link *link)
{
	return has_died(link) || liveness_is_dead(link->peer);
}

/*
 * The process is known by its arena. Its PID proves nothing: after execve it is the same, and
 * verbatimds in several PID namespaces see several.
 */
static bool is_same(const struct link *link, uint64_t arena_file)
{
	return link->arena_file == arena_file && !is_dead(link);
}

/* The progress thread frees it (peers_free_deferred). */
static void defer_free(struct link *link) REQUIRES(links_lock)
{
	links[link->slot] = NULL;
	link->next_free = deferred;
	deferred = link;
}

/* The link to the process that verbatimd handed over, with a reference; NULL: there is none yet. */
static struct link *get_present(const struct ctl_peer_info *info)
{
	uint64_t arena_file = peer_link_arena_file(info);
	struct link *there;

	lock_acquire(&links_lock);
	there = links[info->slot];
	if (there && !is_same(there, arena_file))
		there = NULL;
	if (there) {
		there->told_pid = info->pid;
		link_get(there);
	}
	lock_release(&links_lock);
	return there;
}

/* verbatimd may have told the other end of this memory alone. */
static void take_memory(struct link *link, const struct ctl_peer_info *info)
{
	if (peer_link_offers_memory(info) && link_move(link, (int)info->side, info->link_fd))
		wake_both_ends(link);
}

/*
 * With another reference. False: another thread was quicker, this peer is dead, or it has left this
 * memory; the link was never used.
 */
static bool enter(struct link *link)
{
	struct link *there;
	bool entered = false;

	lock_acquire(&links_lock);
	there = links[link->slot];
	if (!link_is_spent(link) &&
	    !(there && (is_same(there, link->arena_file) || liveness_is_dead(link->peer))) &&
	    link_start(link)) {
		if (there)
			defer_free(there);
		links[link->slot] = link;
		hot_links_add(link);
		link_get(link);
		entered = true;
	}
	lock_release(&links_lock);
	return entered;
}

/*
 * The link that is there instead of the one that verbatimd handed over, with a reference; NULL:
 * none. verbatimd may have offered the quicker thread other memory, and only this one to the other
 * end.
 */
static struct link *take_quicker(const struct ctl_peer_info *info)
{
	uint64_t arena_file = peer_link_arena_file(info);
	struct link *there;
	bool same;

	lock_acquire(&links_lock);
	there = links[info->slot];
	if (there && is_dead(there))
		there = NULL;
	if (there)
		link_get(there);
	same = there && there->arena_file == arena_file;
	if (same)
		there->told_pid = info->pid;
	lock_release(&links_lock);
	if (same)
		take_memory(there, info);
	return there;
}

/* Without a link: what verbatimd handed over is of no use any more. */
enum void_answer {
	NOT_VOID,
	OF_DEAD, /* that process has ended */
	OF_LEFT, /* it has left this memory, for other memory of verbatimd's */
};

/*
 * The link to the process that verbatimd handed over, made if there is none yet, with a reference.
 * A notice that is read late does not replace the link to the slot's next process.
 */
static struct link *take_over(struct ctl_peer_info *info, enum void_answer *why)
{
	struct link *link = get_present(info);

	*why = NOT_VOID;
	if (link) {
		take_memory(link, info);
	} else if ((link = peer_link_make(info)) && enter(link)) {
		/* The peer may have stored records before the link was in the table. */
		wakeup_kick();
	} else if (link) {
		*why = liveness_is_dead(link->peer) ? OF_DEAD : OF_LEFT;
		link_close(link);
		link = take_quicker(info);
		if (link)
			*why = NOT_VOID;
	}
	peer_link_close_info(info);
	return link;
}

/* The peer died before the link was in the table: no notice of that will come. */
static void defer_dead(struct link *link)
{
	lock_acquire(&links_lock);
	if (links[link->slot] == link)
		defer_free(link);
	lock_release(&links_lock);
	wakeup_send();
}

/* With a reference, or NULL. */
static struct link *find_alive(uint32_t slot) REQUIRES(links_lock)
{
	struct link *link = links[slot];

	if (slot == own_slot && !self_is_active) {
		hot_links_add(link);
		self_is_active = true;
	}
	/* A broken one stays: what is sent to that process fails by it. */
	if (!link || is_dead(link))
		return NULL;
	link_get(link);
	return link;
}

/* True: verbatimd may know more. */
static bool want(uint32_t slot, bool *wake) REQUIRES(links_lock)
{
	uint64_t now = clock_coarse_ns();

	*wake = false;
	if (now < questions[slot].none_until_ns)
		return now < questions[slot].refused_until_ns;
	if (now < questions[slot].asked_until_ns)
		return true;
	questions[slot].asked_until_ns = now + PEERS_ASK_NS;
	questions[slot].wanted = *wake = true;
	atomic_store(&any_wanted, true);
	return true;
}

struct link *peers_look_up(uint32_t slot, bool *asked)
{
	struct link *link;
	bool wake = false;

	*asked = false;
	if (slot == 0 || slot > SLOT_MAX)
		return NULL;
	lock_acquire(&links_lock);
	link = find_alive(slot);
	if (!link && slot != own_slot)
		*asked = want(slot, &wake);
	lock_release(&links_lock);
	if (wake)
		wakeup_send();
	return link;
}

/* *later: it is wanted, but not yet. */
static bool take_wanted(uint32_t slot, bool *later)
{
	uint64_t now = clock_coarse_ns();
	bool wanted;

	lock_acquire(&links_lock);
	wanted = questions[slot].wanted;
	*later = wanted && now < questions[slot].refused_until_ns &&
		 now < questions[slot].none_until_ns;
	questions[slot].wanted = *later;
	lock_release(&links_lock);
	return wanted && !*later;
}

/* verbatimd was not asked: another thread uses the connection. */
static void give_back_wanted(uint32_t slot)
{
	lock_acquire(&links_lock);
	questions[slot].wanted = true;
	atomic_store(&any_wanted, true);
	lock_release(&links_lock);
}

bool peers_ask(void)
{
	bool busy = false, any_later = false;

	if (!atomic_load_explicit(&any_wanted, memory_order_relaxed) ||
	    !atomic_exchange(&any_wanted, false))
		return false;
	for (uint32_t slot = 1; slot <= SLOT_MAX; slot++) {
		bool later;
		int error = take_wanted(slot, &later) ? ctl_peer_ask(ctl, slot) : 0;

		if (error == -ENOTCONN)
			peers_on_none(slot, ENOTCONN);
		else if (error)
			give_back_wanted(slot);
		busy |= error && error != -ENOTCONN;
		any_later |= later;
	}
	if (any_later)
		atomic_store(&any_wanted, true);
	return busy || any_later;
}

static void forget_question(uint32_t slot, uint64_t none_until_ns)
{
	lock_acquire(&links_lock);
	questions[slot].asked_until_ns = 0;
	questions[slot].none_until_ns = questions[slot].out_of_date ? 0 : none_until_ns;
	questions[slot].out_of_date = false;
	lock_release(&links_lock);
}

void peers_forget_miss(uint32_t slot)
{
	if (slot == 0 || slot > SLOT_MAX)
		return;
	lock_acquire(&links_lock);
	questions[slot].none_until_ns = 0;
	questions[slot].out_of_date = questions[slot].asked_until_ns != 0;
	lock_release(&links_lock);
}

struct link *peers_find(uint32_t slot)
{
	struct ctl_peer_info info;
	enum void_answer why;
	struct link *link;

	if (slot == 0 || slot > SLOT_MAX)
		return NULL;
	lock_acquire(&links_lock);
	link = find_alive(slot);
	lock_release(&links_lock);
	if (link)
		return link;

	UNCANCELLED;

	if (slot == own_slot || ctl_peer(ctl, slot, &info))
		return NULL;
	link = take_over(&info, &why);
	if (link && is_dead(link))
		defer_dead(link);
	return link;
}

static void free_link(struct link *link)
{
	progress_on_death(link);
	hot_links_remove(link);
	link_close(link);
}

static void on_death(uint32_t slot, pid_t pid, bool surely)
{
	struct link *link = NULL;

	if (slot == 0 || slot > SLOT_MAX || slot == own_slot)
		return;
	lock_acquire(&links_lock);
	if (links[slot] && links[slot]->told_pid == pid &&
	    (surely || !liveness_is_alive(links[slot]->peer))) {
		link = links[slot];
		links[slot] = NULL;
	}
	lock_release(&links_lock);
	if (link)
		free_link(link);
}

/*
 * The process that has this slot and PID may be alive. Then it has called execve, or verbatimd has
 * disconnected it. Neither ends its present link.
 */
void peers_on_death(uint32_t slot, pid_t pid)
{
	on_death(slot, pid, false);
}

void peers_free_deferred(void)
{
	for (;;) {
		struct link *link;

		lock_acquire(&links_lock);
		link = deferred;
		if (link)
			deferred = link->next_free;
		lock_release(&links_lock);
		if (!link)
			return;
		free_link(link);
	}
}

/* True: the introduction is not over: an answer, or another question, is to come. */
static bool introduce(uint32_t slot, bool all)
{
	bool dead = false, again;
	struct link *link;
	pid_t pid = 0;

	lock_acquire(&links_lock);
	link = slot == own_slot ? NULL : links[slot];
	if (link) {
		dead = is_dead(link);
		pid = link->told_pid;
	}
	if (all) {
		questions[slot].asked_until_ns = questions[slot].none_until_ns = 0;
		questions[slot].refused_until_ns = 0;
	}
	if (!link || dead || link->broken) {
		questions[slot].introduction = INTRODUCED;
	} else if (all || questions[slot].introduction == NOT_BACK) {
		questions[slot].introduction = ASKED;
		questions[slot].wanted = true;
		atomic_store(&any_wanted, true);
	}
	again = questions[slot].introduction != INTRODUCED;
	lock_release(&links_lock);
	if (dead && all)
		on_death(slot, pid, true);
	return again;
}

bool peers_introduce_again(bool all)
{
	bool again = false;

	for (uint32_t slot = 1; slot <= SLOT_MAX; slot++)
		again |= introduce(slot, all);
	return again;
}

/* The link whose introduction this answers, with a reference; NULL: there was no question. */
static struct link *end_introduction(uint32_t slot)
{
	struct link *link = NULL;

	lock_acquire(&links_lock);
	if (questions[slot].introduction == ASKED)
		link = links[slot];
	questions[slot].introduction = INTRODUCED;
	if (link)
		link_get(link);
	lock_release(&links_lock);
	return link;
}

/* verbatimd does not know the peer: it has not reconnected yet, or is dead. */
static void on_no_introduction(uint32_t slot)
{
	struct link *link = end_introduction(slot);

	if (!link)
		return;
	if (!liveness_is_alive(link->peer) && kill(link->pid, 0) && errno == ESRCH) {
		on_death(slot, link->told_pid, true);
	} else if (!link_is_shared(link)) {
		/* the peer may not know of the link: then it gets another */
		lock_acquire(&links_lock);
		questions[slot].introduction = NOT_BACK;
		lock_release(&links_lock);
	}
	link_put(link);
}

/* Another process is said to have the slot of a peer that is alive. */
static bool is_introduction_of_another(uint32_t slot, uint64_t arena_file)
{
	struct link *link = end_introduction(slot);
	bool lasts;

	if (!link)
		return false;
	lasts = liveness_is_alive(link->peer);
	if (link->arena_file != arena_file && !lasts)
		on_death(slot, link->told_pid, true);
	lasts &= link->arena_file != arena_file;
	link_put(link);
	return lasts;
}

static void end_refusal(uint32_t slot)
{
	lock_acquire(&links_lock);
	questions[slot].refused_until_ns = 0;
	lock_release(&links_lock);
}

/*
 * Descriptors are short, or what was sent is not read yet: that passes, and a request that took the
 * peer for silent would sleep for its whole time-out. False: verbatimd has said so for too long.
 */
static bool ask_later(uint32_t slot)
{
	uint64_t now = clock_coarse_ns();
	bool waits;

	lock_acquire(&links_lock);
	if (!questions[slot].refused_until_ns)
		questions[slot].refused_until_ns = now + PEERS_REFUSED_NS;
	waits = now < questions[slot].refused_until_ns;
	questions[slot].wanted |= waits;
	questions[slot].none_until_ns = now + PEERS_MISS_NS;
	if (waits)
		atomic_store(&any_wanted, true);
	lock_release(&links_lock);
	if (waits)
		wakeup_send(); /* so that the progress thread asks after this turn */
	return waits;
}

void peers_on_none(uint32_t slot, int error)
{
	if (slot == 0 || slot > SLOT_MAX)
		return;
	/*
	 * Not known yet, so it is asked again: after a while, or by the next verbatimd
	 * (peers_introduce_again).
	 */
	if (error == EAGAIN || error == ENOTCONN) {
		on_no_introduction(slot);
		return;
	}
	if (error != ENOENT)
		cause_report_ratelimited(CAUSE_MEMORY_EXHAUSTED, 0,
					 "verbatimd makes no link to the process in slot %u: %s; "
					 "it needs 5 descriptors a process, and some for links",
					 slot, strerror(error));
	if (error == ENOENT)
		end_refusal(slot);
	else if (ask_later(slot))
		return; /* what is asked again introduces the two ends, too */
	forget_question(slot, clock_coarse_ns() + PEERS_MISS_NS);
	on_no_introduction(slot);
	shm_retry_on_peers();
}

/*
 * The first answer about this process, which has ended, or about this memory, which the peer has
 * left. It may be late: then the slot's next process may be there, or other memory, and verbatimd
 * is asked again at once. But as long as it has not seen the end of the process, it says the same.
 */
static bool is_first_about(uint32_t slot, uint64_t file)
{
	bool first;

	lock_acquire(&links_lock);
	first = questions[slot].void_file != file;
	questions[slot].void_file = file;
	lock_release(&links_lock);
	return first;
}

void peers_on_link(struct ctl_peer_info *info)
{
	uint32_t slot = info->slot;
	uint64_t arena_file, memory_file;
	enum void_answer why;
	struct link *link;

	if (slot == 0 || slot > SLOT_MAX) {
		peer_link_close_info(info);
		return;
	}
	if (info->arena_fd < 0) {
		cause_report_ratelimited(
			CAUSE_MEMORY_EXHAUSTED, 0,
			"no room for the descriptors of the process in slot %u: it "
			"keeps one for each peer, and takes four at first",
			slot);
		peer_link_close_info(info);
		on_no_introduction(slot);
		return;
	}
	arena_file = peer_link_arena_file(info);
	if (is_introduction_of_another(slot, arena_file)) {
		peer_link_close_info(info);
		return;
	}
	end_refusal(slot);
	memory_file = peer_link_memory_file(info);
	link = take_over(info, &why);
	if (link && is_dead(link)) {
		defer_dead(link);
		why = OF_DEAD;
	}
	/* Without a link, for want of memory, the next question would have the same answer at once.
	 */
	if (why ? is_first_about(slot, why == OF_DEAD ? arena_file : memory_file) : link != NULL)
		forget_question(slot, 0);
	else
		forget_question(slot, clock_coarse_ns() + PEERS_MISS_NS);
	if (link)
		link_put(link);
	shm_retry_on_peers();
}

/*
 * Whether a thread of the peer may still copy from or to our memory. verbatimd's notice says that
 * all its threads have ended, but it comes late, or not at all while verbatimd is stopped. The
 * liveness word says only that they are ending: one may wait for a processor in the middle of a
 * copy. So the kernel is asked, by the PID that reaches the peer's memory. If no PID does, the peer
 * may be in another pid namespace, and only the notice counts.
 */
static bool may_copy(const struct link *link)
{
	if (has_died(link))
		return false;
	return !liveness_is_dead(link->peer) || link->xcopy != XCOPY_VM ||
	       !liveness_no_thread_left(link->pid);
}

static bool has_peers(void)
{
	bool any;

	lock_acquire(&links_lock);
	any = hot_links_count() > (self_is_active ? 1 : 0);
	lock_release(&links_lock);
	return any;
}

uint64_t peers_look_due_ns(void)
{
	return has_peers() ? look_ns : UINT64_MAX;
}

/*
 * No thread of the peer copies any more, or will. Where its PID means nothing here (another PID
 * namespace), the word has been marked for a whole pause between two looks: none of its threads
 * copies by system calls then, and a signal that kills stops loads and stores at once.
 */
static bool has_ended(struct link *link)
{
	bool was_marked = link->marked;

	link->marked = true;
	if (link->xcopy_error == ESRCH)
		return was_marked;
	return has_died(link) || liveness_no_thread_left(link->pid);
}

/*
 * A broken ring is silent: nothing else would end what waits for it. The link stays until its
 * process has ended, for peers_visit_arenas.
 */
static void look_at_rings(struct link *link)
{
	progress_link(link); /* a ring that nobody polls is not known to be broken */
	link_give_back(link);
	if (!link->broken && !link_is_broken(link))
		return;
	if (!link->broken)
		cause_report(CAUSE_RING_OVERWRITTEN, 0, "that with process %d", (int)link->pid);
	progress_on_broken_ring(link);
}

static void look_for_end(uint32_t slot)
{
	struct link *link = NULL;
	bool ended;

	lock_acquire(&links_lock);
	if (slot != own_slot && links[slot])
		link_get(link = links[slot]);
	lock_release(&links_lock);
	if (!link)
		return;
	if (!liveness_is_dead(link->peer)) {
		look_at_rings(link);
		link_put(link);
		return;
	}
	ended = has_ended(link);
	lock_acquire(&links_lock);
	ended &= links[slot] == link;
	if (ended)
		links[slot] = NULL;
	lock_release(&links_lock);
	if (ended)
		free_link(link);
	link_put(link);
}

void peers_look_for_deaths(uint64_t now)
{
	if (now < look_ns)
		return;
	look_ns = now + PEERS_LOOK_NS;
	if (!has_peers())
		return;
	for (uint32_t slot = 1; slot <= SLOT_MAX; slot++)
		look_for_end(slot);
}

/*
 * No lock is held over a check. The walk goes from the last place to the first: if a link is
 * removed meanwhile, the last one replaces it, which was checked already. A link that is added
 * leads to a process that found ours after the key was revoked.
 */
uint32_t peers_visit_arenas(bool (*check)(void *arena, uint64_t what), uint64_t what)
{
	uint32_t found = 0;

	if (own_arena && check(own_arena, what))
		return (uint32_t)getpid();
	for (uint32_t place = hot_links_count(); place-- > 0 && !found;) {
		struct link *link = hot_links_get(place);

		if (!link)
			continue;
		if (link->slot != own_slot && check(link->peer, what) && may_copy(link))
			found = (uint32_t)link->pid;
		link_put(link);
	}
	return found;
}

void peers_reset_after_fork(void)
{
	hot_links_reset_after_fork();
	lock_acquire_in_child(&links_lock);
	for (uint32_t slot = 0; slot < SLOT_COUNT; slot++)
		links[slot] = NULL;
	deferred = NULL;
	self_is_active = false;
	memset(questions, 0, sizeof(questions));
	any_wanted = false;
	own_arena = NULL;
	look_ns = 0;
	ctl = NULL;
	lock_release(&links_lock);
}
