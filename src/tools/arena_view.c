/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/arena_view.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/counter.h"
#include "base/memory_file.h"

#define MAPPED_BYTES ARENA_QP_OFFSET
#define QPS_AT_ONCE  256

static_assert(ARENA_QPS % QPS_AT_ONCE == 0, "QPs are read in equal parts");
static_assert(ARENA_CAUSE_OFFSET + ARENA_CAUSES * sizeof(struct arena_cause) <= MAPPED_BYTES,
	      "the ring is in the mapped part");

int arena_view_open(int fd, struct arena_view *view)
{
	struct arena_header *header;
	struct stat st;
	void *mapping;

	if (fstat(fd, &st) != 0)
		return -errno;
	/* Without the seal the owner could truncate the mapped file, which raises SIGBUS here. */
	if (st.st_size != ARENA_BYTES || !memory_file_has_seals(fd, F_SEAL_SHRINK))
		return -EINVAL;
	mapping = mmap(NULL, MAPPED_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		return -errno;
	header = arena_header(mapping);
	if (header->magic != ARENA_MAGIC || header->version != ARENA_VERSION) {
		munmap(mapping, MAPPED_BYTES);
		return -EINVAL;
	}
	view->fd = fd;
	view->mapping = mapping;
	return 0;
}

void arena_view_close(struct arena_view *view)
{
	munmap(view->mapping, MAPPED_BYTES);
	view->mapping = NULL;
}

bool arena_view_device(const struct arena_view *view, unsigned index, struct arena_view_device *out)
{
	struct arena_device copy;

	memcpy(&copy, &arena_devices(view->mapping)[index], sizeof(copy));
	if (!copy.name[0])
		return false;
	text_escape(out->name, sizeof(out->name), copy.name, sizeof(copy.name));
	text_escape(out->address, sizeof(out->address), copy.address, sizeof(copy.address));
	out->contexts = copy.contexts;
	return true;
}

bool arena_view_port(const struct arena_view *view, unsigned index, struct arena_view_port *out)
{
	struct arena_port copy;

	memcpy(&copy, &arena_ports(view->mapping)[index], sizeof(copy));
	if (!copy.address[0])
		return false;
	text_escape(out->address, sizeof(out->address), copy.address, sizeof(copy.address));
	out->is_group = copy.is_group != 0;
	return true;
}

uint64_t arena_view_counter(const struct arena_view *view, unsigned index)
{
	return counter_sum(arena_counters(view->mapping), (enum counter)index);
}

static void see_qp(const struct arena_qp *qp, uint32_t qpn, struct arena_view_qp *out)
{
	uint32_t word = atomic_load_explicit(&qp->word, memory_order_acquire); /* QPENTRY */

	*out = (struct arena_view_qp){
		.qpn = qpn,
		.type = ARENA_QP_TYPE(word),
		.state = ARENA_QP_STATE(word),
		.dest_qpn = qp->dest_qpn,
		.pd = qp->pd,
		.access = qp->access,
		.device = qp->device,
		.path = qp->path,
	};
	memcpy(out->peer, qp->peer, sizeof(out->peer));
}

int arena_view_qps(const struct arena_view *view, unsigned slot,
		   void (*each)(const struct arena_view_qp *qp, void *arg), void *arg)
{
	struct arena_qp part[QPS_AT_ONCE];

	for (uint32_t first = 0; first < ARENA_QPS; first += QPS_AT_ONCE) {
		off_t offset = ARENA_QP_OFFSET + (off_t)first * (off_t)sizeof(part[0]);
		ssize_t got = pread(view->fd, part, sizeof(part), offset);

		if (got != (ssize_t)sizeof(part))
			return got < 0 ? -errno : -EIO;
		for (uint32_t i = 0; i < QPS_AT_ONCE; i++) {
			struct arena_view_qp qp;

			if (!atomic_load_explicit(&part[i].word, memory_order_relaxed))
				continue;
			see_qp(&part[i], slot << ARENA_QP_BITS | (first + i), &qp);
			each(&qp, arg);
		}
	}
	return 0;
}

bool arena_view_cause(const struct arena_view *view, unsigned index, struct arena_view_cause *out)
{
	struct arena_cause copy;

	if (!cause_read(&arena_causes(view->mapping)[index], &copy))
		return false;
	out->number = copy.number;
	out->time_ns = copy.time_ns;
	out->cause = copy.cause;
	out->qpn = copy.qpn;
	text_escape(out->text, sizeof(out->text), copy.text, sizeof(copy.text));
	return true;
}

uint64_t arena_view_cause_count(const struct arena_view *view)
{
	return atomic_load_explicit(&arena_header(view->mapping)->cause_next, memory_order_relaxed);
}
