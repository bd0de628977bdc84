/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of NETLINK_RDMA, right and wrong ones, and what is answered of arenas, honest or not.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "ctl/observe.h"
#include "preload/nldev.h"

#define LO    1 /* the number of the loopback interface */
#define DEV   "vrb_lo"
#define PID   4711
#define SLOT  3
#define MANY  2000
#define QPN   (SLOT << ARENA_QP_BITS)
#define TYPE  RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, 0)
#define DUMP  (NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP)
#define DO_IT (NLM_F_REQUEST | NLM_F_ACK)

static struct {
	int arena, error;
	struct observe_listener listeners[4];
	unsigned count;
} verbatimd_lists;

int observe_processes(void (*each)(const struct observe_process *, void *arg), void *arg, char *why,
		      size_t why_len)
{
	struct observe_process process = { .slot = SLOT,
					   .pid = PID,
					   .arena_fd = verbatimd_lists.arena };

	if (!verbatimd_lists.error || verbatimd_lists.error == -ECONNRESET)
		each(&process, arg);
	return verbatimd_lists.error;
}

int observe_listeners(void (*each)(const struct observe_listener *, void *arg), void *arg,
		      char *why, size_t why_len)
{
	for (unsigned i = 0; i < verbatimd_lists.count; i++)
		each(&verbatimd_lists.listeners[i], arg);
	return verbatimd_lists.error;
}

static void write_arena(size_t offset, const void *part, size_t len)
{
	assert_int_equal(pwrite(verbatimd_lists.arena, part, len, (off_t)offset), len);
}

static void write_qp(uint32_t index, const struct arena_qp *qp)
{
	write_arena(ARENA_QP_OFFSET + index * sizeof(*qp), qp, sizeof(*qp));
}

static int set_up(void **state)
{
	struct arena_header header = { .magic = ARENA_MAGIC, .version = ARENA_VERSION };
	struct arena_device devices[2] = { { .name = "vrb_other", .contexts = 7 },
					   { .name = DEV, .contexts = 2 } };

	verbatimd_lists.error = 0;
	verbatimd_lists.count = 0;
	verbatimd_lists.arena = memfd_create("arena", MFD_CLOEXEC);
	assert_int_equal(ftruncate(verbatimd_lists.arena, ARENA_BYTES), 0);
	write_arena(0, &header, sizeof(header));
	write_arena(ARENA_DEVICE_OFFSET, devices, sizeof(devices));
	setenv("VERBATIM_DEVICES", "lo", 1);
	return 0;
}

static int tear_down(void **state)
{
	close(verbatimd_lists.arena);
	return 0;
}

/* Appends an attribute of 4 bytes to a request. */
static void add(struct nlmsghdr *request, uint16_t attribute, uint32_t value)
{
	struct nlattr *place = (void *)((char *)request + request->nlmsg_len);

	*place = (struct nlattr){ .nla_len = 8, .nla_type = attribute };
	memcpy(place + 1, &value, sizeof(value));
	request->nlmsg_len += 8;
}

/* Asks; a device, port or QPN of 0 is left out. The caller ends the answer. */
static struct answer ask(uint16_t command, uint16_t flags, uint32_t device, uint32_t port,
			 uint32_t qpn)
{
	_Alignas(4) char bytes[256] = "";
	struct nlmsghdr *request = (void *)bytes;
	struct answer answer = { 0 };

	*request = (struct nlmsghdr){ .nlmsg_len = NLMSG_HDRLEN,
				      .nlmsg_type = TYPE | command,
				      .nlmsg_flags = flags,
				      .nlmsg_seq = 77 };
	if (device)
		add(request, RDMA_NLDEV_ATTR_DEV_INDEX, device);
	if (port)
		add(request, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	if (qpn)
		add(request, RDMA_NLDEV_ATTR_RES_LQPN, qpn);
	nldev_answer(bytes, request->nlmsg_len, 99, &answer);
	assert_int_equal(answer.error, 0);
	return answer;
}

/* The message at *at, which moves on; NULL: there is none. */
static const struct nlmsghdr *next(const struct answer *answer, size_t *at)
{
	const struct nlmsghdr *message = (const void *)(answer->bytes + *at);

	if (*at >= answer->len)
		return NULL;
	assert_in_range(message->nlmsg_len, NLMSG_HDRLEN, answer->len - *at);
	assert_int_equal(message->nlmsg_seq, 77);
	assert_int_equal(message->nlmsg_pid, 99);
	*at += NLMSG_ALIGN(message->nlmsg_len);
	return message;
}

/* Finds an attribute in a row of them. NULL: there is none. */
static const struct nlattr *find_in(const void *from, size_t len, uint16_t type)
{
	const char *at = from, *end = at + len;

	while (at < end) {
		const struct nlattr *attribute = (const void *)at;

		assert_in_range(attribute->nla_len, NLA_HDRLEN, end - at);
		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			return attribute;
		at += NLA_ALIGN(attribute->nla_len);
	}
	return NULL;
}

static const struct nlattr *find(const struct nlmsghdr *message, uint16_t type)
{
	return find_in((const char *)message + NLMSG_HDRLEN, message->nlmsg_len - NLMSG_HDRLEN,
		       type);
}

static const struct nlattr *find_within(const struct nlattr *nest, uint16_t type)
{
	assert_non_null(nest);
	assert_true(nest->nla_type & NLA_F_NESTED);
	return find_in(nest + 1, nest->nla_len - NLA_HDRLEN, type);
}

static uint64_t number(const struct nlattr *attribute)
{
	uint64_t value = 0;

	assert_non_null(attribute);
	assert_true(attribute->nla_len <= NLA_HDRLEN + sizeof(value));
	memcpy(&value, attribute + 1, attribute->nla_len - NLA_HDRLEN);
	return value;
}

static const char *text(const struct nlattr *attribute)
{
	assert_non_null(attribute);
	return (const char *)(attribute + 1);
}

/* The only message, or the last, is NLMSG_ERROR. */
static int status_of(const struct nlmsghdr *message)
{
	assert_non_null(message);
	assert_int_equal(message->nlmsg_type, NLMSG_ERROR);
	return ((const struct nlmsgerr *)NLMSG_DATA(message))->error;
}

static void is_refused(struct answer answer, int error)
{
	size_t at = 0;

	assert_int_equal(status_of(next(&answer, &at)), -error);
	assert_null(next(&answer, &at));
	answer_fini(&answer);
}

/* How many messages a dump has before its end. */
static unsigned count_dump(struct answer answer)
{
	const struct nlmsghdr *message;
	unsigned count = 0;
	size_t at = 0;

	while ((message = next(&answer, &at)) && message->nlmsg_type != NLMSG_DONE) {
		assert_true(message->nlmsg_flags & NLM_F_MULTI);
		assert_int_equal(number(find(message, RDMA_NLDEV_ATTR_DEV_INDEX)), LO);
		assert_string_equal(text(find(message, RDMA_NLDEV_ATTR_DEV_NAME)), DEV);
		count++;
	}
	assert_non_null(message);
	assert_int_equal(message->nlmsg_len, NLMSG_HDRLEN + sizeof(int));
	assert_int_equal(*(const int *)NLMSG_DATA(message), 0);
	assert_null(next(&answer, &at));
	answer_fini(&answer);
	return count;
}

static void devices(void **state)
{
	struct answer answer = ask(RDMA_NLDEV_CMD_GET, DO_IT, LO, 0, 0);
	const struct nlmsghdr *message;
	size_t at = 0;

	message = next(&answer, &at);
	assert_int_equal(message->nlmsg_type, TYPE | RDMA_NLDEV_CMD_GET);
	assert_int_equal(message->nlmsg_flags, 0);
	assert_int_equal(number(find(message, RDMA_NLDEV_ATTR_PORT_INDEX)), 1);
	assert_int_equal(number(find(message, RDMA_NLDEV_ATTR_DEV_NODE_TYPE)), 1);
	assert_string_equal(text(find(message, RDMA_NLDEV_ATTR_FW_VERSION)), VERBATIM_VERSION);
	assert_int_equal(status_of(next(&answer, &at)), 0);
	/* each in a datagram of its own */
	assert_int_equal(answer_datagram(&answer, 0), NLMSG_ALIGN(message->nlmsg_len));
	answer_fini(&answer);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_GET, DUMP, 0, 0, 0)), 1);

	answer = ask(RDMA_NLDEV_CMD_PORT_GET, DO_IT, LO, 1, 0);
	at = 0;
	message = next(&answer, &at);
	assert_int_equal(number(find(message, RDMA_NLDEV_ATTR_PORT_STATE)), 4);
	assert_int_equal(number(find(message, RDMA_NLDEV_ATTR_PORT_PHYS_STATE)), 5);
	assert_int_equal(number(find(message, RDMA_NLDEV_ATTR_NDEV_INDEX)), LO);
	assert_string_equal(text(find(message, RDMA_NLDEV_ATTR_NDEV_NAME)), "lo");
	assert_null(find(message, RDMA_NLDEV_ATTR_LID));
	answer_fini(&answer);
}

static void qps(void **state)
{
	struct arena_qp qp = { .word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS),
			       .dest_qpn = 0x4567,
			       .pd = 5,
			       .device = 1,
			       .rq_psn = 0xabcdef,
			       .sq_psn = 0x123456 };
	const struct nlattr *entry;
	struct answer answer;
	size_t at = 0;

	write_qp(9, &qp);
	answer = ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 1, 0);
	entry = find_within(find(next(&answer, &at), RDMA_NLDEV_ATTR_RES_QP),
			    RDMA_NLDEV_ATTR_RES_QP_ENTRY);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_PORT_INDEX)), 1);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_LQPN)), QPN + 9);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_RQPN)), 0x4567);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_RQ_PSN)), 0xabcdef);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_SQ_PSN)), 0x123456);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE)), 0);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_TYPE)), IBV_QPT_RC);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_STATE)), IBV_QPS_RTS);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_PDN)), 5);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_PID)), PID);
	assert_int_equal(next(&answer, &at)->nlmsg_type, NLMSG_DONE);
	answer_fini(&answer);
}

static void kinds_of_qps(void **state)
{
	struct arena_qp reset = { .word = ARENA_QP_WORD(IBV_QPT_UD, IBV_QPS_RESET), .device = 1 };
	struct arena_qp rts = { .word = ARENA_QP_WORD(IBV_QPT_UD, IBV_QPS_RTS), .device = 1 };
	struct arena_qp other = { .word = ARENA_QP_WORD(IBV_QPT_UD, IBV_QPS_RTS), .device = 0 };
	const struct nlmsghdr *message;
	struct answer answer;
	size_t at = 0;

	write_qp(0, &reset);
	write_qp(1, &rts);
	write_qp(ARENA_QPS - 1, &rts);
	write_qp(2, &other);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 3);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 1, 0)), 2);

	answer = ask(RDMA_NLDEV_CMD_RES_QP_GET, DO_IT, LO, 0, QPN);
	message = next(&answer, &at);
	assert_int_equal(number(find(message, RDMA_NLDEV_ATTR_RES_LQPN)), QPN);
	assert_null(find(message, RDMA_NLDEV_ATTR_PORT_INDEX)); /* it has none yet */
	assert_null(find(message, RDMA_NLDEV_ATTR_RES_RQPN));	/* as a UD QP */
	assert_int_equal(status_of(next(&answer, &at)), 0);
	answer_fini(&answer);
	is_refused(ask(RDMA_NLDEV_CMD_RES_QP_GET, DO_IT, LO, 1, QPN), ENOENT);
	is_refused(ask(RDMA_NLDEV_CMD_RES_QP_GET, DO_IT, LO, 0, QPN + 2), ENOENT);

	answer = ask(RDMA_NLDEV_CMD_RES_GET, DO_IT, LO, 0, 0);
	at = 0;
	message = next(&answer, &at);
	assert_int_equal(number(find_within(find_within(find(message, RDMA_NLDEV_ATTR_RES_SUMMARY),
							RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY),
					    RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)),
			 3);
	answer_fini(&answer);
}

/* Each datagram fits the buffer of iproute2 and has whole messages. */
static void many_qps(void **state)
{
	struct arena_qp qp = { .word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS), .device = 1 };
	struct answer answer;
	size_t from = 0, len;
	unsigned datagrams = 0;

	for (uint32_t i = 0; i < MANY; i++)
		write_qp(i, &qp);
	answer = ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0);
	while ((len = answer_datagram(&answer, from))) {
		size_t at = from;

		assert_true(len <= ANSWER_DATAGRAM_MAX);
		while (at < from + len)
			next(&answer, &at);
		assert_int_equal(at, from + len);
		from = at;
		datagrams++;
	}
	assert_int_equal(from, answer.len);
	assert_in_range(datagrams, MANY / 30, MANY / 15);
	assert_int_equal(count_dump(answer), MANY);
}

static void listeners(void **state)
{
	static const uint8_t lo[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	static const uint8_t all[16] = { [10] = 0xff, 0xff };
	static const uint8_t elsewhere[16] = { [10] = 0xff, 0xff, 192, 0, 2, 200 };
	const uint8_t *gids[] = { lo, all, elsewhere, all };
	struct sockaddr_in address;
	const struct nlattr *entry;
	struct answer answer;
	size_t at = 0;

	verbatimd_lists.count = 4;
	for (unsigned i = 0; i < 4; i++) {
		verbatimd_lists.listeners[i] = (struct observe_listener){
			.pid = PID,
			.space = CTL_CM_TCP,
			.local = { .family = i == 3 ? AF_INET6 : AF_INET, .port = htons(80 + i) },
		};
		memcpy(verbatimd_lists.listeners[i].local.gid, gids[i], 16);
	}
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_CM_ID_GET, DUMP, LO, 0, 0)), 3);
	answer = ask(RDMA_NLDEV_CMD_RES_CM_ID_GET, DUMP, LO, 1, 0);
	entry = find_within(find(next(&answer, &at), RDMA_NLDEV_ATTR_RES_CM_ID),
			    RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_PS)), CTL_CM_TCP);
	assert_int_equal(number(find_within(entry, RDMA_NLDEV_ATTR_RES_STATE)), 8);
	entry = find_within(entry, RDMA_NLDEV_ATTR_RES_SRC_ADDR);
	assert_int_equal(entry->nla_len, NLA_HDRLEN + sizeof(struct sockaddr_storage));
	memcpy(&address, entry + 1, sizeof(address));
	assert_int_equal(address.sin_family, AF_INET);
	assert_int_equal(ntohs(address.sin_port), 80);
	assert_int_equal(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
	assert_int_equal(next(&answer, &at)->nlmsg_type, NLMSG_DONE);
	answer_fini(&answer);
}

static void refusals(void **state)
{
	static const struct {
		uint16_t command, flags;
		uint32_t device, port, qpn;
		int error;
	} rows[] = {
		{ RDMA_NLDEV_CMD_SET, DO_IT, LO, 0, 0, EOPNOTSUPP },
		{ RDMA_NLDEV_CMD_RES_CQ_GET, DUMP, LO, 0, 0, EOPNOTSUPP },
		{ RDMA_NLDEV_CMD_RES_CM_ID_GET, DO_IT, LO, 0, 0, EOPNOTSUPP },
		{ 1023, DUMP, LO, 0, 0, EOPNOTSUPP },
		{ 2 << 10, DUMP, LO, 0, 0, EOPNOTSUPP }, /* of client 7, which there is not */
		{ RDMA_NLDEV_CMD_GET, DO_IT, 0, 0, 0, EINVAL },
		{ RDMA_NLDEV_CMD_GET, DO_IT, UINT32_MAX, 0, 0, EINVAL },
		{ RDMA_NLDEV_CMD_PORT_GET, DO_IT, LO, 0, 0, EINVAL },
		{ RDMA_NLDEV_CMD_PORT_GET, DO_IT, LO, 2, 0, EINVAL },
		{ RDMA_NLDEV_CMD_RES_QP_GET, DUMP, 0, 0, 0, EINVAL },
		{ RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 2, 0, EINVAL },
		{ RDMA_NLDEV_CMD_RES_QP_GET, DO_IT, LO, 0, 0, EINVAL },
		{ RDMA_NLDEV_CMD_RES_QP_GET, DO_IT, LO, 0, 1, ENOENT },
		{ RDMA_NLDEV_CMD_RES_CM_ID_GET, DUMP, LO, 2, 0, EINVAL },
	};
	struct arena_qp qp = { .word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS), .device = 1 };

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_refused(ask(rows[i].command, rows[i].flags, rows[i].device, rows[i].port,
			       rows[i].qpn),
			   rows[i].error);
	verbatimd_lists.error = -ECONNRESET; /* it ended while it listed: a part is no list */
	write_qp(0, &qp);
	is_refused(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0), ECONNRESET);
	verbatimd_lists.error = -ETIMEDOUT;
	is_refused(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0), ETIMEDOUT);
	is_refused(ask(RDMA_NLDEV_CMD_RES_GET, DUMP, LO, 0, 0), ETIMEDOUT);
	is_refused(ask(RDMA_NLDEV_CMD_RES_CM_ID_GET, DUMP, LO, 0, 0), ETIMEDOUT);
	/* Without verbatimd nothing uses Verbatim. */
	verbatimd_lists.error = -ECONNREFUSED;
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 0);
}

/* What is cut off, or says that it is longer than it is. */
static void malformed(void **state)
{
	_Alignas(4) char bytes[64] = "";
	struct nlmsghdr *request = (void *)bytes;
	struct nlattr *attribute = NLMSG_DATA(request);

	for (uint16_t said = 0; said < 24; said++) {
		struct answer answer = { 0 };

		*request = (struct nlmsghdr){ .nlmsg_len = NLMSG_HDRLEN + 8,
					      .nlmsg_type = TYPE | RDMA_NLDEV_CMD_GET,
					      .nlmsg_flags = NLM_F_REQUEST,
					      .nlmsg_seq = 77 };
		*attribute = (struct nlattr){ said, RDMA_NLDEV_ATTR_DEV_INDEX };
		*(uint32_t *)(attribute + 1) = LO;
		nldev_answer(bytes, request->nlmsg_len, 99, &answer);
		if (said == 8) {
			assert_int_equal(((struct nlmsghdr *)answer.bytes)->nlmsg_type,
					 request->nlmsg_type);
			answer_fini(&answer);
		} else {
			is_refused(answer, EINVAL);
		}
	}
	for (size_t len = 0; len < NLMSG_HDRLEN + 8; len++) {
		struct answer answer = { 0 };

		nldev_answer(bytes, len, 99, &answer);
		assert_int_equal(answer.len, 0);
	}
	request->nlmsg_flags = NLM_F_ACK | NLM_F_DUMP; /* no request: acknowledged alone */
	for (uint16_t type = NLMSG_NOOP; type < NLMSG_MIN_TYPE; type++) {
		struct answer answer = { 0 };

		request->nlmsg_type = type;
		nldev_answer(bytes, request->nlmsg_len, 99, &answer);
		is_refused(answer, 0);
	}
}

/* Nothing of an arena is taken for more than a number. */
static void hostile_arenas(void **state)
{
	struct arena_device devices[ARENA_DEVICES];
	struct arena_header header;
	struct arena_qp qp;

	memset(&qp, 0xff, sizeof(qp));
	for (uint32_t i = 0; i < 32; i++)
		write_qp(i, &qp);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 0);
	qp.device = 1;
	write_qp(0, &qp);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 1);
	memset(devices, 'v', sizeof(devices)); /* names without an end */
	write_arena(ARENA_DEVICE_OFFSET, devices, sizeof(devices));
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 0);
	for (uint32_t i = 0; i < ARENA_DEVICES; i++) /* two of one name: the first counts */
		strcpy(devices[i].name, DEV);
	write_arena(ARENA_DEVICE_OFFSET, devices, sizeof(devices));
	qp.device = 0;
	write_qp(1, &qp);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 1);
	header = (struct arena_header){ .magic = ARENA_MAGIC, .version = ARENA_VERSION + 1 };
	write_arena(0, &header, sizeof(header));
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 0);
	header = (struct arena_header){ .magic = 1, .version = ARENA_VERSION };
	write_arena(0, &header, sizeof(header));
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 0);
	header.magic = ARENA_MAGIC;
	write_arena(0, &header, sizeof(header));
	assert_int_equal(ftruncate(verbatimd_lists.arena, ARENA_QP_OFFSET + 64), 0);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 0);
	assert_int_equal(ftruncate(verbatimd_lists.arena, 1), 0);
	assert_int_equal(count_dump(ask(RDMA_NLDEV_CMD_RES_QP_GET, DUMP, LO, 0, 0)), 0);
}

/* An answer that would be too long is none, and leaves what was there before. */
static void too_long(void **state)
{
	static char bytes[UINT16_MAX - NLA_HDRLEN];
	const struct nlmsghdr request = { .nlmsg_seq = 77 };
	struct answer answer = { 0 };
	size_t before, at = 0;

	answer_request(&answer, &request, 99);
	answer_status(&answer, &request, 0);
	before = answer.len;
	answer_begin(&answer, TYPE, NLM_F_MULTI);
	for (unsigned i = 0; i < ANSWER_MAX / sizeof(bytes) + 2; i++)
		answer_bytes(&answer, 1, bytes, sizeof(bytes));
	answer_end(&answer);
	assert_int_equal(answer.error, -ENOBUFS);
	answer_cut(&answer, before);
	answer_status(&answer, &request, -ENOBUFS);
	assert_int_equal(answer.error, 0);
	assert_int_equal(status_of(next(&answer, &at)), 0);
	assert_int_equal(status_of(next(&answer, &at)), -ENOBUFS);
	assert_null(next(&answer, &at));
	answer_fini(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(devices, set_up, tear_down),
		cmocka_unit_test_setup_teardown(qps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kinds_of_qps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(many_qps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(listeners, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refusals, set_up, tear_down),
		cmocka_unit_test_setup_teardown(malformed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(hostile_arenas, set_up, tear_down),
		cmocka_unit_test(too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
