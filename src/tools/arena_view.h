/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arena view - reads another process's arena for the tools.
 *
 * In:  the descriptor that verbatimd sent; its content is not trusted.
 * Out: copies of parts of the arena with printable text. Each is read once, then checked.
 *
 * The head of the arena is mapped; a seal keeps it from shrinking. The tables of QPs are read with
 * pread, which allocates no memory for pages that were never written.
 */
#ifndef TOOLS_ARENA_VIEW_H
#define TOOLS_ARENA_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "tools/text.h"

struct arena_view {
	int fd;	       /* the caller's */
	void *mapping; /* up to ARENA_QP_OFFSET, read-only */
};

struct arena_view_device {
	char name[TEXT_ROOM(sizeof((struct arena_device){ 0 }.name))];
	char address[TEXT_ROOM(sizeof((struct arena_device){ 0 }.address))];
	uint32_t contexts;
};

struct arena_view_port {
	char address[TEXT_ROOM(sizeof((struct arena_port){ 0 }.address))];
	bool is_group;
};

struct arena_view_qp {
	uint32_t qpn; /* its slot comes from verbatimd, not from the arena */
	unsigned type;
	unsigned state;
	uint32_t dest_qpn;
	uint32_t pd;
	uint32_t access;
	uint32_t device;
	unsigned path;	  /* enum arena_path, unchecked */
	uint8_t peer[16]; /* a GID; 0 while there is no path */
};

struct arena_view_cause {
	uint64_t number;
	uint64_t time_ns;
	uint32_t cause;
	uint32_t qpn;
	char text[TEXT_ROOM(sizeof((struct arena_cause){ 0 }.text))];
};

/*
 * Opens a view, which is closed before `fd`. 0; -EINVAL: `fd` is no arena, or one of another
 * version; or another -errno. Writes `view` on success only.
 */
int arena_view_open(int fd, struct arena_view *view);
void arena_view_close(struct arena_view *view);

/* `index` is 0..ARENA_DEVICES - 1. False: the entry is empty. */
bool arena_view_device(const struct arena_view *view, unsigned index,
		       struct arena_view_device *out);

/* `index` is 0..ARENA_PORTS - 1. False: the entry is empty. */
bool arena_view_port(const struct arena_view *view, unsigned index, struct arena_view_port *out);

/* `index` is an enum counter (base/counter.h). The count of all devices and of none. */
uint64_t arena_view_counter(const struct arena_view *view, unsigned index);

/* Calls `each` for every QP of the slot. 0 or -errno. */
int arena_view_qps(const struct arena_view *view, unsigned slot,
		   void (*each)(const struct arena_view_qp *qp, void *arg), void *arg);

/* `index` is 0..ARENA_CAUSES - 1. False: the entry is empty, or the process is writing it. */
bool arena_view_cause(const struct arena_view *view, unsigned index, struct arena_view_cause *out);

/* How many causes the process has reported since it started. */
uint64_t arena_view_cause_count(const struct arena_view *view);

#endif
