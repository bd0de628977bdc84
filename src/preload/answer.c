/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/answer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 4096

void answer_fini(struct answer *answer)
{
	free(answer->bytes);
	*answer = (struct answer){ 0 };
}

void answer_request(struct answer *answer, const struct nlmsghdr *request, uint32_t port)
{
	answer->seq = request->nlmsg_seq;
	answer->port = port;
}

static bool grow(struct answer *answer, size_t needed)
{
	size_t room = answer->room ? answer->room : ROOM_FIRST;
	char *bytes;

	while (room < needed)
		room *= 2;
	if (room > ANSWER_MAX) {
		answer->error = -ENOBUFS;
		return false;
	}
	bytes = realloc(answer->bytes, room);
	if (!bytes) {
		answer->error = -ENOMEM;
		return false;
	}
	answer->bytes = bytes;
	answer->room = room;
	return true;
}

/* Room for `len` bytes at the end, all zero, with padding behind. NULL: there is an error. */
static void *add(struct answer *answer, size_t len)
{
	size_t padded = NLMSG_ALIGN(len);
	void *place;

	if (answer->error)
		return NULL;
	if (answer->len + padded > answer->room && !grow(answer, answer->len + padded))
		return NULL;
	place = answer->bytes + answer->len;
	memset(place, 0, padded);
	answer->len += padded;
	return place;
}

void answer_begin(struct answer *answer, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *header;

	answer->message = answer->len;
	header = add(answer, sizeof(*header));
	if (header)
		*header = (struct nlmsghdr){ .nlmsg_type = type,
					     .nlmsg_flags = flags,
					     .nlmsg_seq = answer->seq,
					     .nlmsg_pid = answer->port };
}

void answer_bytes(struct answer *answer, uint16_t attribute, const void *value, size_t len)
{
	struct nlattr *head = add(answer, NLA_HDRLEN + len);

	if (!head)
		return;
	*head = (struct nlattr){ .nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = attribute };
	if (len)
		memcpy((char *)head + NLA_HDRLEN, value, len);
}

void answer_u8(struct answer *answer, uint16_t attribute, uint8_t value)
{
	answer_bytes(answer, attribute, &value, sizeof(value));
}

void answer_u32(struct answer *answer, uint16_t attribute, uint32_t value)
{
	answer_bytes(answer, attribute, &value, sizeof(value));
}

void answer_u64(struct answer *answer, uint16_t attribute, uint64_t value)
{
	answer_bytes(answer, attribute, &value, sizeof(value));
}

void answer_text(struct answer *answer, uint16_t attribute, const char *value)
{
	answer_bytes(answer, attribute, value, strlen(value) + 1);
}

size_t answer_nest(struct answer *answer, uint16_t attribute)
{
	size_t nest = answer->len;

	answer_bytes(answer, attribute | NLA_F_NESTED, NULL, 0);
	return nest;
}

void answer_unnest(struct answer *answer, size_t nest)
{
	struct nlattr *head;

	if (answer->error)
		return;
	head = (void *)(answer->bytes + nest);
	head->nla_len = (uint16_t)(answer->len - nest);
}

void answer_end(struct answer *answer)
{
	struct nlmsghdr *header;

	if (answer->error)
		return;
	header = (void *)(answer->bytes + answer->message);
	header->nlmsg_len = (uint32_t)(answer->len - answer->message);
}

void answer_done(struct answer *answer)
{
	int *error;

	answer_begin(answer, NLMSG_DONE, NLM_F_MULTI);
	error = add(answer, sizeof(*error));
	if (error)
		*error = 0;
	answer_end(answer);
}

void answer_status(struct answer *answer, const struct nlmsghdr *request, int error)
{
	struct nlmsgerr *status;

	answer_begin(answer, NLMSG_ERROR, NLM_F_CAPPED);
	status = add(answer, sizeof(*status));
	if (status)
		*status = (struct nlmsgerr){ .error = error, .msg = *request };
	answer_end(answer);
}

void answer_cut(struct answer *answer, size_t len)
{
	answer->len = len;
	answer->error = 0;
}

int answer_append(struct answer *answer, const struct answer *other)
{
	void *place = add(answer, other->len);
	int error = answer->error;

	answer->error = 0;
	if (place && other->len)
		memcpy(place, other->bytes, other->len);
	return error;
}

static const struct nlmsghdr *message_at(const struct answer *answer, size_t from)
{
	return (const void *)(answer->bytes + from);
}

/* Whether the datagram goes on behind it. */
static bool is_continued(const struct nlmsghdr *message)
{
	return message->nlmsg_flags & NLM_F_MULTI && message->nlmsg_type != NLMSG_DONE;
}

size_t answer_datagram(const struct answer *answer, size_t from)
{
	size_t end = from;

	while (end < answer->len) {
		const struct nlmsghdr *message = message_at(answer, end);
		size_t after = end + NLMSG_ALIGN(message->nlmsg_len);

		if (end > from &&
		    (!(message->nlmsg_flags & NLM_F_MULTI) || after - from > ANSWER_DATAGRAM_MAX))
			break;
		end = after;
		if (!is_continued(message))
			break;
	}
	return end - from;
}
