/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/busy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "memory/maps.h"

#define BUFFER_BYTES 4096
#define CALL_BYTES   256 /* "nr" and nine numbers in hexadecimal */

/* Not in headers before Linux 6.7. */
#define CALL_FUTEX_WAITV  449
#define CALL_FUTEX_WAIT	  455
#define FUTEX2_IS_PRIVATE 128

/*
 * ------------------------------------------------------------------------------------------
 * The process.
 */

static bool visit_rings(const struct mapping *m, void *arg)
{
	bool *found = arg;

	*found = !strncmp(m->name, "/[aio]", 6) || !strncmp(m->name, "anon_inode:[io_", 15);
	return !*found;
}

/* VmPin or VmLck. */
static bool has_pages(const char *of)
{
	uint64_t kib;

	return status_number(of, &kib) || kib;
}

bool busy_with_pins(void)
{
	bool rings = false;

	return maps_visit(visit_rings, &rings) || rings || has_pages("VmPin");
}

bool busy_with_locks(void)
{
	return has_pages("VmLck");
}

/*
 * ------------------------------------------------------------------------------------------
 * Its threads.
 */

enum state { IDLE, RUNNING, ENDING, BUSY }; /* the worst last */

struct place {
	uintptr_t start, end;
	uintptr_t window; /* of busy_wake */
};

static bool is_in(const struct place *place, uint64_t address)
{
	return address >= place->start && address < place->end;
}

static bool is_direct(uint64_t fd)
{
	int flags = fcntl((int)fd, F_GETFL);

	return flags >= 0 && flags & O_DIRECT;
}

static bool is_busy_call(const struct place *place, uint64_t call, const uint64_t args[6])
{
	switch (call) {
	case SYS_futex:
		return !(args[1] & FUTEX_PRIVATE_FLAG) &&
		       (is_in(place, args[0]) || is_in(place, args[4]));
	case CALL_FUTEX_WAIT:
		return !(args[3] & FUTEX2_IS_PRIVATE) && is_in(place, args[0]);
	case CALL_FUTEX_WAITV:
		return true; /* its futexes are in a list that may be on the pages themselves */
	case SYS_read:
	case SYS_pread64:
	case SYS_readv:
	case SYS_preadv:
	case SYS_preadv2:
		return is_direct(args[0]);
	default:
		return false;
	}
}

/* The word of a shared futex that the call sleeps on, in the place; or 0. */
static uint64_t futex_of(const struct place *place, uint64_t call, const uint64_t args[6])
{
	bool one = call == SYS_futex && !(args[1] & FUTEX_PRIVATE_FLAG);

	if (call == CALL_FUTEX_WAIT)
		one = !(args[3] & FUTEX2_IS_PRIVATE);
	return one && is_in(place, args[0]) ? args[0] : 0;
}

/* A line of /proc/PID/syscall: "running", "-1 sp pc" (in a fault), or "nr 0xARG ... sp pc". */
static enum state judge(const struct place *place, const char *text)
{
	uint64_t args[6], call, word;

	if (!strncmp(text, "running", 7))
		return RUNNING;
	if (*text < '0' || *text > '9')
		return *text == '-' ? IDLE : BUSY;
	call = maps_number(&text, 10);
	for (int i = 0; i < 6; i++) {
		if (strncmp(text, " 0x", 3))
			return BUSY;
		text += 3;
		args[i] = maps_number(&text, 16);
	}
	word = place->window ? futex_of(place, call, args) : 0;
	if (word)
		syscall(SYS_futex, place->window + (word - place->start), FUTEX_WAKE, INT_MAX, NULL,
			NULL, 0);
	return !place->window && is_busy_call(place, call, args) ? BUSY : IDLE;
}

static enum state look_at_call(const struct place *place, int tasks, const char *tid)
{
	char path[32], text[CALL_BYTES + 1];
	ssize_t n;
	int fd;

	if (strlen(tid) > sizeof(path) - sizeof("/syscall"))
		return BUSY;
	stpcpy(stpcpy(path, tid), "/syscall");
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) /* the thread has ended, or the file may not be read here */
		return faccessat(tasks, tid, F_OK, 0) ? IDLE : BUSY;
	n = read(fd, text, CALL_BYTES);
	close(fd);
	if (n <= 0)
		return IDLE; /* the thread has ended */
	text[n] = 0;
	return judge(place, text);
}

/*
 * The robust list's head is in the control block, on the page of the word that the kernel zeroes
 * when the thread ends.
 */
static bool has_control_block(const struct place *place, const char *tid)
{
	size_t length;
	void *head;

	return !syscall(SYS_get_robust_list, (pid_t)maps_number(&tid, 10), &head, &length) &&
	       is_in(place, (uintptr_t)head);
}

static enum state look_at_control_block(const struct place *place, int tasks, const char *tid)
{
	(void)tasks;
	return has_control_block(place, tid) ? BUSY : IDLE;
}

static enum state look_at_thread(const struct place *place, int tasks, const char *tid)
{
	enum state state = look_at_call(place, tasks, tid);

	return state == RUNNING && has_control_block(place, tid) ? ENDING : state;
}

/* struct linux_dirent64 of getdents64(2). */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* The worst of all threads but the calling one. */
static enum state look_at_threads(const struct place *place,
				  enum state (*look)(const struct place *place, int tasks,
						     const char *tid))
{
	_Alignas(struct entry) char buffer[BUFFER_BYTES];
	int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum state worst = tasks < 0 ? BUSY : IDLE;
	pid_t self = gettid();
	long n;

	while (worst != BUSY && (n = syscall(SYS_getdents64, tasks, buffer, sizeof(buffer))) != 0) {
		if (n < 0)
			worst = BUSY;
		for (long at = 0; at < n && worst != BUSY;) {
			const struct entry *entry = (const void *)(buffer + at);
			const char *digits = entry->name;
			enum state state = IDLE;

			if (*digits != '.' && (pid_t)maps_number(&digits, 10) != self)
				state = look(place, tasks, entry->name);
			if (state > worst)
				worst = state;
			at += entry->length;
		}
	}
	if (tasks >= 0)
		close(tasks);
	return worst;
}

bool busy_with_sleepers(uintptr_t start, uintptr_t end)
{
	struct place place = { start, end, 0 };
	enum state state = look_at_threads(&place, look_at_thread);

	if (state == RUNNING || state == ENDING) {
		sched_yield();
		state = look_at_threads(&place, look_at_thread);
	}
	return state >= ENDING;
}

int busy_check_process(void)
{
	uint64_t locked_kib;
	int error = status_number("VmLck", &locked_kib), fd;

	if (!error) {
		fd = open("/proc/thread-self/syscall", O_RDONLY | O_CLOEXEC);
		error = fd < 0 ? maps_open_error(errno) : 0;
		if (fd >= 0)
			close(fd);
	}
	if (error == -EAGAIN)
		return error;
	return error || locked_kib ? -EPERM : 0;
}

void busy_wake(uintptr_t start, uintptr_t end, uintptr_t window)
{
	struct place place = { start, end, window };

	look_at_threads(&place, look_at_call);
}

bool busy_with_threads(uintptr_t start, uintptr_t end)
{
	struct place place = { start, end, 0 };

	return look_at_threads(&place, look_at_control_block) == BUSY;
}
