/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answer - messages of netlink in a buffer that grows, and how they lie in datagrams.
 *
 * In:  types, attributes and values.
 * Out: bytes as the kernel has them: netlink(7), aligned to 4, numbers in host order.
 *
 * A message is begun, gets attributes, which may be nested, and is ended. Without memory the answer
 * keeps an error; what is added to it then has no effect. No locks: one thread at a time.
 */
#ifndef PRELOAD_ANSWER_H
#define PRELOAD_ANSWER_H

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_DATAGRAM_MAX 3584	       /* bytes: iproute2 receives into 4096 */
#define ANSWER_MAX	    ((size_t)64 << 20) /* bytes: some 400,000 QPs */

struct answer {
	char *bytes; /* of malloc; all zero is an empty answer */
	size_t len, room;
	size_t message; /* where the message that was begun starts */
	uint32_t seq, port;
	int error; /* 0, -ENOMEM, or -ENOBUFS: beyond ANSWER_MAX */
};

void answer_fini(struct answer *answer);

/* The messages that follow answer this request, which came from that port (nl_pid). */
void answer_request(struct answer *answer, const struct nlmsghdr *request, uint32_t port);

void answer_begin(struct answer *answer, uint16_t type, uint16_t flags);
void answer_u8(struct answer *answer, uint16_t attribute, uint8_t value);
void answer_u32(struct answer *answer, uint16_t attribute, uint32_t value);
void answer_u64(struct answer *answer, uint16_t attribute, uint64_t value);
void answer_text(struct answer *answer, uint16_t attribute, const char *value);
void answer_bytes(struct answer *answer, uint16_t attribute, const void *value, size_t len);
/* Until answer_unnest, which takes what this returned, attributes are within this one. */
size_t answer_nest(struct answer *answer, uint16_t attribute);
void answer_unnest(struct answer *answer, size_t nest);
void answer_end(struct answer *answer);

/* NLMSG_DONE, the end of a dump. */
void answer_done(struct answer *answer);

/* NLMSG_ERROR: `error` is 0 or -errno. Of the request it has the header alone (NLM_F_CAPPED). */
void answer_status(struct answer *answer, const struct nlmsghdr *request, int error);

/* Takes back what was added since `len` was that, and forgets the error. */
void answer_cut(struct answer *answer, size_t len);

/* Adds all that the other one has. 0 or -errno: it has added nothing. */
int answer_append(struct answer *answer, const struct answer *other);

/*
 * The length of the datagram that begins at `from`: one message, or as many of a dump as fit
 * ANSWER_DATAGRAM_MAX. 0: there is none.
 */
size_t answer_datagram(const struct answer *answer, size_t from);

#endif
