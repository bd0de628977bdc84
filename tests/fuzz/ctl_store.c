/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl_store.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmserver/cm_store.h"
#include "ctl_check.h"
#include "ctl_host.h"
#include "ctl_peer.h"
#include "ibcm/ip_header.h"

#define RECORDS 48 /* the first ones: these peers make no more */

static uint8_t (*take_byte)(void);

static off_t place(unsigned slot)
{
	return (off_t)(CM_STORE_FIRST + slot % RECORDS) * CM_STORE_RECORD_BYTES;
}

static void copy(int from, int to)
{
	char bytes[RECORDS * CM_STORE_RECORD_BYTES];
	ssize_t n = pread(from, bytes, sizeof(bytes), place(0));

	require(n == (ssize_t)sizeof(bytes) && pwrite(to, bytes, sizeof(bytes), place(0)) == n);
}

static void put(int fd, unsigned slot, const void *record, size_t bytes)
{
	require(pwrite(fd, record, bytes, place(slot)) == (ssize_t)bytes);
}

static void put_id(int fd, const struct peer *p)
{
	uint8_t how = take_byte(), kind = take_byte();
	const struct host_address *local = &host_addresses[take_byte() % HOST_ADDRESSES];
	const struct host_address *remote = &host_addresses[take_byte() % HOST_ADDRESSES];
	struct cm_record_id r = {
		.kind = CM_RECORD_ID,
		.number = how & 1 ? 1u + kind : p->ids[kind % PEER_NUMBERS],
		.channel = p->channels[how >> 1 & 7],
		.space = how & 16 ? CTL_CM_UDP : CTL_CM_TCP,
		.qp_type = how & 16 ? CTL_CM_QP_UD : CTL_CM_QP_RC,
		.raised = kind & 3,
		.backlog = kind & 3,
		.is_bound = how >> 5 & 1,
		.is_listening = how >> 6 & 1,
		.has_connection = how >> 7,
		.had_connection = how >> 7,
		.local = { .family = local->family, .ifindex = local->ifindex },
		.is_local = kind >> 7,
		.other_session = 1u + kind, /* as fuzz_ctl.c numbers those that return */
		.is_ud = how >> 4 & 1,
		.ifindex = local->ifindex,
		.end = { .state = kind & 15,
			 .local_id = 100u + (kind >> 4),
			 .remote_id = kind & 3,
			 .wait_ns = CONNECTION_EXPONENT_0_NS << 20,
			 .tries_left = kind & 15 },
	};
	struct ip_header header = { .is_v4 = remote->family == 2 };

	r.local.port = (uint16_t)((kind & 3) << 8);
	memcpy(r.local.gid, local->gid, CTL_GID_BYTES);
	memcpy(r.local_gid, local->gid, CTL_GID_BYTES);
	memcpy(r.remote_gid, remote->gid, CTL_GID_BYTES);
	memcpy(r.end.sent.local_gid, local->gid, CTL_GID_BYTES);
	memcpy(r.end.sent.remote_gid, remote->gid, CTL_GID_BYTES);
	memcpy(header.source, local->gid, CTL_GID_BYTES);
	memcpy(header.destination, remote->gid, CTL_GID_BYTES);
	ip_header_encode(&header, r.end.sent.private_data);
	r.end.sent.service_id = ip_header_service_id((uint16_t)r.space, 1);
	r.end.type = r.end.sent.type = IBCM_REQ + take_byte() % 9;
	put(fd, take_byte(), &r, sizeof(r));
}

static void put_event(int fd, const struct peer *p)
{
	uint8_t how = take_byte(), which = take_byte();
	struct cm_record_event e = {
		.kind = CM_RECORD_EVENT,
		.id = how & 1 ? 1u + which : p->ids[which % PEER_NUMBERS],
		.index = how >> 1 & 3,
		.order = which,
		.body = { .kind = how & 8 ? CTL_CM_CONNECT_REQUEST : how >> 4,
			  .listener = p->ids[which >> 4 & 7] },
	};

	put(fd, take_byte(), &e, sizeof(e));
}

static void change_word(int fd)
{
	uint32_t slot = take_byte(), at = take_byte(), word = take_byte();

	/* Small numbers are valid more often. */
	if (word & 0x80)
		word = word << 24 | (uint32_t)take_byte() << 16 | (uint32_t)take_byte() << 8 |
		       take_byte();
	require(pwrite(fd, &word, sizeof(word), place(slot) + 4 * at) == sizeof(word));
}

int store_make(const struct peer *p, uint8_t (*take)(void))
{
	int fd = memfd_create("fuzz-returned", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t how = take();

	take_byte = take;
	require(fd >= 0 && !ftruncate(fd, CTL_CM_STORE_BYTES));
	if (p->store >= 0)
		copy(p->store, fd);
	for (unsigned i = how & 3; i; i--)
		put_id(fd, p);
	for (unsigned i = how >> 2 & 3; i; i--)
		put_event(fd, p);
	for (unsigned i = how >> 4 & 7; i; i--)
		change_word(fd);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	return fd;
}
