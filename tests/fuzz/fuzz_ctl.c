/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The daemon's control socket: clients of all kinds that say anything in any order, with any
 * descriptors, read or do not, and die, while packets come from the network and time passes.
 *
 * The whole daemon runs in this process, on a host of its own (ctl_host.h). The bytes of the input
 * are operations and their arguments: most messages are correct except for some fields, so that the
 * run reaches later states. What must hold: the tables of the daemon agree with each other; it
 * becomes idle; a channel's event descriptor is readable if there are events; the daemon frees
 * everything at its end; and two clients that were connected all the time can still make a
 * connection.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmserver/cm.h"
#include "ctl/fdmsg.h"
#include "ctl_check.h"
#include "ctl_host.h"
#include "ctl_peer.h"
#include "ctl_store.h"
#include "base/gid.h"
#include "daemon/client.h"
#include "ibcm/ip_header.h"
#include "ibcm/mad.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "verbatimd/server.h"

#define PEERS	  6
#define STEPS_MAX 160
#define PATHS	  3 /* addresses with which packets are exchanged */
#define SENT_KEPT 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *at;
	size_t left;
} input;

static struct daemon d;
static struct peer peers[PEERS], bystanders[2];

/* The daemon's last message: answers to it get further than invented ones. */
static struct {
	struct ibcm_message message;
	uint8_t from[16], to[16];
} sent[SENT_KEPT];
static unsigned sent_count;

static uint8_t take(void)
{
	if (!input.left)
		return 0;
	input.left--;
	return *input.at++;
}

static uint32_t take_word(void)
{
	uint32_t a = take(), b = take(), c = take();

	return a << 24 | b << 16 | c << 8 | take();
}

static void settle(void)
{
	check_rest(&d);
}

/*
 * ------------------------------------------------------------------------------------------
 * Descriptors to pass along.
 */

enum { FD_SEALED, FD_UNSEALED, FD_EVENT, FD_STREAM, FD_DATAGRAM, FD_NULL, FD_LISTENER, FD_KINDS };

static int make_fd(unsigned kind)
{
	int ends[2] = { -1, -1 };

	switch (kind) {
	case FD_SEALED:
	case FD_UNSEALED:
		ends[0] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (kind == FD_SEALED)
			fcntl(ends[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
		break;
	case FD_EVENT:
		ends[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		break;
	case FD_STREAM:
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
		break;
	case FD_DATAGRAM:
		socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends);
		break;
	case FD_NULL:
		ends[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
		break;
	default:
		ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		break;
	}
	if (ends[1] >= 0)
		close(ends[1]);
	return ends[0];
}

static unsigned make_fds(int fds[CTL_FDS_MAX], uint8_t count)
{
	count %= CTL_FDS_MAX + 1;
	for (unsigned i = 0; i < count; i++)
		fds[i] = make_fd(take() % FD_KINDS);
	return count;
}

/*
 * ------------------------------------------------------------------------------------------
 * Fields.
 */

static void take_address(struct ctl_cm_address *a)
{
	const struct host_address *of = &host_addresses[take() % HOST_ADDRESSES];
	uint8_t port = take();

	memcpy(a->gid, of->gid, sizeof(a->gid));
	a->family = port & 0x80 ? (uint16_t)(port & 0x40 ? 0 : 2) : of->family;
	a->ifindex = port & 0x20 ? take() : of->ifindex;
	a->port = (uint16_t)((port & 3) << 8);
}

static void take_end(struct ctl_cm_end *end)
{
	static const uint16_t lengths[] = {
		0, 1, 56, 92, 136, 148, 180, 196, 204, 216, 217, 65535
	};
	uint8_t how = take();

	end->qpn = how & 1 ? take_word() : 5;
	end->psn = how & 2 ? take_word() : 7;
	end->private_bytes = lengths[how >> 2 & 7];
	if (how & 0x20)
		end->private_bytes = lengths[take() % (sizeof(lengths) / sizeof(*lengths))];
	if (how & 0x40)
		memset(&end->responder_resources, take(), 10);
	end->ack_timeout = how & 0x80 ? take() : 14;
	memset(end->private_data, how, sizeof(end->private_data));
}

/* Mostly its own number, or another peer's, or an invalid one. */
static uint32_t take_number(const struct peer *p, bool of_channel)
{
	uint8_t which = take();

	if (which >= 0xf0)
		return take_word();
	if (which & 0x80)
		p = &peers[which >> 4 & 7 % PEERS];
	return of_channel ? p->channels[which % PEER_NUMBERS] : p->ids[which % PEER_NUMBERS];
}

/*
 * ------------------------------------------------------------------------------------------
 * What clients do.
 */

static void say_hello(struct peer *p)
{
	uint8_t how = take();
	int fds[4] = { -1, -1, -1, -1 };
	unsigned count = 3;
	struct ctl_hello hello = {
		.greeting = { { CTL_HELLO, 1 }, CTL_MAGIC, CTL_VERSION },
		.comm = "fuzz",
	};

	if (how % 8 < 4) {
		peer_join_cm(p);
		return;
	}
	if (how % 8 == 7) {
		struct ctl_observe observe = {
			.greeting = { { CTL_OBSERVE, 1 }, CTL_MAGIC, CTL_VERSION + (how >> 7) }
		};

		peer_send(p, &observe, sizeof(observe), NULL, 0);
		return;
	}
	fds[0] = make_fd(how & 8 ? take() % FD_KINDS : FD_SEALED);
	fds[1] = make_fd(how & 16 ? take() % FD_KINDS : FD_EVENT);
	fds[2] = make_fd(how & 32 ? take() % FD_KINDS : FD_SEALED);
	/* Returns with the token of a process, which may be alive. */
	if (how & 64) {
		const struct peer *other = &peers[take() % PEERS];

		hello.wanted_slot = other->slot;
		fds[3] = other->token >= 0 ? dup(other->token) : make_fd(FD_DATAGRAM);
		count = 4;
	}
	peer_send(p, &hello, sizeof(hello), fds, count);
}

static void ask_cm(struct peer *p)
{
	static const uint16_t spaces[] = { CTL_CM_TCP, CTL_CM_UDP, CTL_CM_IB, CTL_CM_IPOIB };
	uint32_t type =
		CTL_CM_CREATE_CHANNEL + take() % (CTL_CM_GET_EVENT - CTL_CM_CREATE_CHANNEL + 1);
	union ctl_message m = { .header = { type, 9 } };
	size_t length = sizeof(m.cm_ask);

	switch (type) {
	case CTL_CM_CREATE_CHANNEL:
		peer_create_channel(p);
		return;
	case CTL_CM_BIND:
		m.cm_bind.id = take_number(p, false);
		m.cm_bind.flags = take() & 7;
		take_address(&m.cm_bind.local);
		length = sizeof(m.cm_bind);
		break;
	case CTL_CM_CONNECT:
	case CTL_CM_ACCEPT:
	case CTL_CM_REJECT:
		m.cm_request.id = take_number(p, false);
		m.cm_request.reason = take();
		if (type == CTL_CM_CONNECT) {
			take_address(&m.cm_request.local);
			take_address(&m.cm_request.remote);
		}
		take_end(&m.cm_request.end);
		length = sizeof(m.cm_request);
		break;
	case CTL_CM_RAISE:
		m.cm_raise.id = take_number(p, false);
		m.cm_raise.kind = take() % 24;
		m.cm_raise.status = take();
		length = sizeof(m.cm_raise);
		break;
	default:
		m.cm_ask.id = take_number(p, false);
		m.cm_ask.channel = take_number(p, true);
		m.cm_ask.flags = take() & 15;
		m.cm_ask.value = type == CTL_CM_CREATE_ID ? spaces[take() & 3] : take() & 3;
		break;
	}
	peer_send(p, &m, length, NULL, 0);
}

static void ask_as_process(struct peer *p)
{
	union ctl_message m = { .header = { 0, 9 } };
	uint8_t what = take(), which = take();
	int fd_store;

	switch (what % 7) {
	case 0:
		m.peer =
			(struct ctl_peer){ { CTL_PEER, 9 }, which < 128 ? which % 8 : take_word() };
		peer_send(p, &m, sizeof(m.peer), NULL, 0);
		break;
	case 1:
	case 2:
	case 3:
		m.header.type = CTL_MCAST_ATTACH + what % 7 - 1;
		if (m.header.type == CTL_MCAST_REPLY)
			m.header.type = CTL_MCAST_MEMBERS;
		m.mcast.mgid[15] = which & 7;
		peer_send(p, &m, sizeof(m.mcast), NULL, 0);
		break;
	case 4:
		m.list.header.type = which & 2 ? CTL_COUNTERS : which & 1 ? CTL_LIST : CTL_CM_LIST;
		peer_send(p, &m, which & 2 ? sizeof(m.counters) : sizeof(m.list), NULL, 0);
		break;
	default:
		memcpy(m.port.gid, host_addresses[which % HOST_ADDRESSES].gid, CTL_GID_BYTES);
		m.port.ifindex =
			which & 0x80 ? take() : host_addresses[which % HOST_ADDRESSES].ifindex;
		m.header.type = what % 7 == 5 ? CTL_PORT : CTL_PORT_KEPT;
		fd_store = peers[which >> 4 & 7 % PEERS].fd_store;
		fd_store = fd_store >= 0 ? dup(fd_store) : make_fd(take() % FD_KINDS);
		if (what % 7 == 5) {
			close(fd_store);
			peer_send(p, &m, sizeof(m.port), NULL, 0);
		} else {
			peer_send(p, &m, sizeof(m.port), &fd_store, 1);
		}
		break;
	}
}

static void say_anything(struct peer *p)
{
	uint8_t bytes[sizeof(union ctl_message) + 64] = { 0 };
	int fds[CTL_FDS_MAX];
	uint32_t type = take() % (CTL_TYPE_COUNT + 2);
	size_t length = take() * 2u, some = take() & 31;
	unsigned count = make_fds(fds, take());

	memcpy(bytes, &type, sizeof(type));
	for (size_t i = 0; i < some && i < sizeof(bytes); i++)
		bytes[i + 4] = take();
	peer_send(p, bytes, length < sizeof(bytes) ? length : sizeof(bytes), fds, count);
}

/* Binds and listens, in one step. */
static void listen_there(struct peer *p)
{
	struct ctl_cm_bind bind = { .header = { CTL_CM_BIND, 9 } };

	take_address(&bind.local);
	peer_listen(p, &bind.local, take() & 1 ? CTL_CM_UDP : CTL_CM_TCP);
}

static void connect_there(struct peer *p)
{
	struct ctl_cm_address local, remote;

	take_address(&local);
	take_address(&remote);
	peer_connect(p, &local, &remote, take() & 1 ? CTL_CM_UDP : CTL_CM_TCP);
}

static void flood(struct peer *p)
{
	union ctl_message m = { .header = { CTL_PEER, 9 } };
	uint8_t how = take();
	size_t length = sizeof(m.peer);

	if (p->is_cm) {
		m.cm_raise =
			(struct ctl_cm_raise){ { CTL_CM_RAISE, 9 }, .id = take_number(p, false) };
		length = sizeof(m.cm_raise);
	}
	for (unsigned i = 0; i < how * 4u; i++)
		peer_send(p, &m, length, NULL, 0);
}

static void come_back(struct peer *p, uint8_t how)
{
	int store = store_make(p, take);

	peer_come_back(p, how & 0x40 ? d.uid : 1000 + (how >> 5 & 1), how >> 4 & 3, take() + 1u,
		       store);
}

static void act_as_client(struct peer *p)
{
	uint8_t what = take();

	if (!peer_is_there(p)) {
		peer_call(p, &d, what & 3 ? d.uid : 1000 + (what >> 2 & 1), what >> 3 & 3);
		say_hello(p);
		return;
	}
	switch (what % 16) {
	case 0:
		say_anything(p);
		break;
	case 1:
		if (p->is_cm && what & 0x70)
			come_back(p, what);
		else
			peer_hang_up(p);
		break;
	case 2:
		p->deaf = !p->deaf;
		break;
	case 3:
		flood(p);
		break;
	case 4:
		listen_there(p);
		break;
	case 5:
	case 6:
		connect_there(p);
		break;
	case 7:
	case 8:
	case 9:
		peer_go_on(p, take());
		break;
	case 10:
		peer_meddle(p, take());
		break;
	case 11:
		say_hello(p);
		break;
	default:
		if (p->is_cm)
			ask_cm(p);
		else
			ask_as_process(p);
		break;
	}
}

/*
 * ------------------------------------------------------------------------------------------
 * The network.
 */

static void send_packet(const uint8_t *from, const uint8_t *to, const struct packet *p,
			const uint8_t *mad, bool damaged)
{
	struct icrc_path path = { .source_port = CTL_UDP_PORT, .destination_port = CTL_UDP_PORT };
	uint8_t bytes[PACKET_HEADER_BYTES + MAD_BYTES + ICRC_BYTES];
	unsigned length = packet_encode(p, bytes);
	struct iovec piece = { bytes + length, MAD_BYTES };
	uint32_t icrc;

	memcpy(bytes + length, mad, MAD_BYTES);
	memcpy(path.source, from, 16);
	memcpy(path.destination, to, 16);
	icrc = icrc_compute(NULL, &path, 0, bytes, length, &piece, 1, 0) ^ damaged;
	length += MAD_BYTES;
	for (unsigned i = 0; i < ICRC_BYTES; i++)
		bytes[length++] = (uint8_t)(icrc >> 8 * i);
	host_packet(from, CTL_UDP_PORT, to, bytes, length);
}

static const uint8_t *path_end(uint8_t which, bool of_host)
{
	static const uint8_t ends[2][PATHS] = { { 5, 6, 2 }, { 0, 3, 2 } };

	return host_addresses[ends[of_host][which % PATHS]].gid;
}

static void fill_request(struct ibcm_message *m, const uint8_t *from, const uint8_t *to)
{
	uint8_t how = take();
	struct ip_header header = { .is_v4 = gid_is_v4(to), .source_port = 99 };

	memcpy(header.source, from, 16);
	memcpy(header.destination, how & 4 ? from : to, 16);
	ip_header_encode(&header, m->private_data);
	m->private_bytes = IP_HEADER_BYTES;
	m->service_id =
		ip_header_service_id(m->type == IBCM_REQ ? CTL_CM_TCP : CTL_CM_UDP, how & 3);
	m->local_timeout = how & 8 ? take() : 20;
	m->qpn = how & 16 ? take() : 5;
	m->transport = how >> 5 & 3;
	memcpy(m->local_gid, from, 16);
	memcpy(m->remote_gid, to, 16);
}

/* A message of any type, for a connection with the other host, or invented. */
static void receive_message(void)
{
	static const struct packet good = {
		.pkey = PACKET_PKEY, .dest_qpn = 1, .src_qpn = 1, .qkey = 0x80010000u
	};
	uint8_t how = take(), which = take(), mad[MAD_BYTES];
	struct ibcm_message m = { .type = IBCM_REQ + how % 9 };
	const uint8_t *from = path_end(which, false), *to = path_end(which, true);
	struct packet p = good;

	p.opcode = (uint8_t)packet_find_opcode(PACKET_UD, OPERATION_SEND, true, true, 0);
	m.local_id = which >> 2 & 7;
	if (which & 0x80 && sent_count) {
		unsigned n = (which >> 4 & 7) % (sent_count < SENT_KEPT ? sent_count : SENT_KEPT);

		m.remote_id = sent[n].message.local_id;
		m.transaction = sent[n].message.transaction;
		if (sent[n].message.remote_id)
			m.local_id = sent[n].message.remote_id;
		m.service_id = sent[n].message.service_id;
		from = sent[n].to;
		to = sent[n].from;
	}
	m.qpn = 5;
	m.subject = take() & 3;
	m.service_timeout = m.ack_timeout = take() & 31;
	m.reason = take() & 31;
	if (m.type == IBCM_REQ || m.type == IBCM_SIDR_REQ)
		fill_request(&m, from, to);
	m.private_bytes = (uint16_t)mad_private_bytes(m.type);
	mad_encode(&m, mad);
	for (unsigned i = how >> 6; i > 1; i--)
		mad[take()] = take();
	if (how >> 6 == 3)
		p.dest_qpn = take();
	send_packet(from, to, &p, mad, how >> 6 == 1 && take() == 1);
}

static void receive_anything(void)
{
	uint8_t bytes[320], which = take();
	size_t length = take() + (which & 64u);

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(i < 40 ? take() : which);
	host_packet(path_end(which, false), 99, path_end(which, true), bytes, length);
}

static void on_sent(const uint8_t from[16], const uint8_t to[16], const uint8_t *bytes,
		    size_t length)
{
	struct icrc_path path = { .source_port = CTL_UDP_PORT, .destination_port = CTL_UDP_PORT };
	uint16_t identification = 0;
	struct packet p;
	unsigned at = sent_count++ % SENT_KEPT;

	memcpy(path.source, from, 16);
	memcpy(path.destination, to, 16);
	require(icrc_check(NULL, &path, bytes, length, &identification) && !identification);
	require(packet_decode(bytes, length - ICRC_BYTES, &p) == PACKET_GOOD);
	require(mad_decode(p.payload, p.payload_bytes, &sent[at].message));
	memcpy(sent[at].from, from, 16);
	memcpy(sent[at].to, to, 16);
}

static void change_host(void)
{
	uint8_t what = take();

	if (what & 0x80)
		host_kill(what % 4);
	else
		host_addresses[what >> 2 & 7].state = what & 3 % 3;
	host_tell_change();
}

/*
 * ------------------------------------------------------------------------------------------
 * The whole.
 */

static void step(void)
{
	uint8_t what = take();

	switch (what % 16) {
	case 0:
	case 1:
		host_pass_ms(1u << (what >> 4));
		break;
	case 2:
	case 3:
	case 4:
		receive_message();
		break;
	case 5:
		receive_anything();
		break;
	case 6:
		change_host();
		break;
	default:
		act_as_client(&peers[(what >> 4) % PEERS]);
		break;
	}
	/* Else more events come before the daemon runs. */
	if (what & 0x80 && take() & 1)
		return;
	settle();
	for (unsigned i = 0; i < PEERS; i++) {
		peer_read(&peers[i]);
		check_event_fds(&d, &peers[i]);
	}
	check_books(&d);
	if (what >> 4 == 5)
		check_connections(&d);
}

static void begin(void)
{
	setenv("VERBATIMD_LINGER_MS", "1000000000", 1);
	host_begin();
	host_on_sent = on_sent;
	sent_count = 0;
	require(!server_init(&d, take() & 1 ? DAEMON_OF_SYSTEM : DAEMON_OF_USER));
	for (unsigned i = 0; i < PEERS; i++)
		peer_init(&peers[i]);
	for (unsigned i = 0; i < 2; i++) {
		peer_init(&bystanders[i]);
		peer_call(&bystanders[i], &d, d.uid, 4 + i);
		peer_join_cm(&bystanders[i]);
	}
	settle();
}

/* The two bystanders still connect. */
static void check_bystanders(void)
{
	host_addresses[1].state = HOST_OWN;
	for (unsigned i = 0; i < 2; i++)
		peer_read(&bystanders[i]);
	check_connection(&d, &bystanders[0], &bystanders[1], &host_addresses[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int lowest = dup(0), after;

	close(lowest);
	if (!secure_getenv("VERBATIM_NAMESPACE")) {
		char name[32];

		snprintf(name, sizeof(name), "fuzz.%d", (int)getpid());
		setenv("VERBATIM_NAMESPACE", name, 1);
	}
	input.at = data;
	input.left = size;
	begin();
	for (unsigned i = 0; i < STEPS_MAX && input.left; i++)
		step();
	settle();
	check_books(&d);
	check_bystanders();
	server_fini(&d);
	for (unsigned i = 0; i < PEERS; i++)
		peer_hang_up(&peers[i]);
	for (unsigned i = 0; i < 2; i++)
		peer_hang_up(&bystanders[i]);
	host_end();
	after = dup(0);
	close(after);
	require(after == lowest); /* all descriptors are closed */
	return 0;
}
