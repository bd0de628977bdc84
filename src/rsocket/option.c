/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/option.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/config.h"
#include "rsocket/keepalive.h"
#include "rsocket/stream_progress.h"

enum { LEVEL_SOCKET, LEVEL_TCP, LEVEL_IPV6 }; /* indices of s->options */

static void remember(struct stream *s, int level, int name, bool on)
{
	uint64_t bit = UINT64_C(1) << (name & 63);

	if (on)
		s->options[level] |= bit;
	else
		s->options[level] &= ~bit;
}

static bool is_on(const struct stream *s, int level, int name)
{
	return s->options[level] >> (name & 63) & 1;
}

static int need_int(const void *value, socklen_t length, int *number)
{
	if (!value || length < sizeof(*number))
		return -EINVAL;
	memcpy(number, value, sizeof(*number));
	return 0;
}

/* Sets the option on the CM id, which may refuse it once it is bound. */
static int set_on_id(struct stream *s, int level, int name, int id_option, int on)
{
	int rc;

	lock_acquire(&s->lock);
	rc = rdma_set_option(s->id, RDMA_OPTION_ID, id_option, &on, sizeof(on)) ? -errno : 0;
	lock_release(&s->lock);
	if (!rc)
		remember(s, level, name, on != 0);
	return rc;
}

static int set_keepalive(struct stream *s, int on)
{
	int rc = 0;

	if (on)
		rc = keepalive_start(s);
	else
		keepalive_stop(s);
	if (!rc)
		remember(s, LEVEL_SOCKET, SO_KEEPALIVE, on != 0);
	return rc;
}

static int set_socket(struct stream *s, int name, const void *value, socklen_t length)
{
	int number, rc = need_int(value, length, &number);

	if (rc)
		return rc;
	switch (name) {
	case SO_REUSEADDR:
		return set_on_id(s, LEVEL_SOCKET, name, RDMA_OPTION_ID_REUSEADDR, number);
	case SO_RCVBUF: /* both halves; twice what was asked for, socket(7) */
		if (!s->qp)
			s->receive_bytes = config_buffer((uint32_t)number * UINT64_C(2));
		return 0;
	case SO_SNDBUF:
		if (!s->qp)
			s->send_bytes = config_buffer((uint32_t)number * UINT64_C(2));
		return 0;
	case SO_LINGER:
		if (length < sizeof(s->linger))
			return -EINVAL;
		memcpy(&s->linger, value, sizeof(s->linger));
		return 0;
	case SO_KEEPALIVE:
		return set_keepalive(s, number);
	case SO_OOBINLINE:
		remember(s, LEVEL_SOCKET, name, number != 0);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_tcp(struct stream *s, int name, const void *value, socklen_t length)
{
	int number, rc = need_int(value, length, &number);

	if (rc)
		return rc;
	switch (name) {
	case TCP_KEEPIDLE:
		if (number <= 0)
			return -EINVAL;
		s->keepalive_s = (unsigned)number;
		return s->keepalive ? keepalive_start(s) : 0;
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
	case TCP_MAXSEG:
		/* accepted without effect: the RC transport retries, and has its own MTU */
		return 0;
	case TCP_NODELAY:
		remember(s, LEVEL_TCP, name, number != 0);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_ipv6(struct stream *s, int name, const void *value, socklen_t length)
{
	int number, rc = need_int(value, length, &number);

	if (rc)
		return rc;
	if (name != IPV6_V6ONLY)
		return -ENOPROTOOPT;
	return set_on_id(s, LEVEL_IPV6, name, RDMA_OPTION_ID_AFONLY, number);
}

static int set_route(struct stream *s, const void *value, socklen_t length)
{
	void *copy = length ? malloc(length) : NULL;

	if (!copy)
		return length ? -ENOMEM : -EINVAL;
	memcpy(copy, value, length);
	free(s->route);
	s->route = copy;
	s->route_bytes = length;
	return 0;
}

static uint32_t clamp(int number, uint32_t min, uint32_t max)
{
	if (number < 0 || (uint32_t)number < min)
		return min;
	return (uint32_t)number > max ? max : (uint32_t)number;
}

static int set_rdma(struct stream *s, int name, const void *value, socklen_t length)
{
	int number, rc;

	if (s->phase > STREAM_LISTENING)
		return -EINVAL;
	if (name == RDMA_ROUTE)
		return value ? set_route(s, value, length) : -EINVAL;
	rc = need_int(value, length, &number);
	if (rc)
		return rc;
	switch (name) {
	case RDMA_SQSIZE:
		s->sq_size = clamp(number, SIZE_MIN, SIZE_MAX_QUEUE);
		return 0;
	case RDMA_RQSIZE:
		s->rq_size = clamp(number, SIZE_MIN, SIZE_MAX_QUEUE);
		return 0;
	case RDMA_INLINE:
		s->inline_bytes = clamp(number, 0, SIZE_MAX_QUEUE);
		return 0;
	case RDMA_IOMAPSIZE:
		s->mappings = protocol_unscale(protocol_scale(clamp(number, 0, 0x7f00)));
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

int option_set(struct stream *s, int level, int name, const void *value, socklen_t length)
{
	switch (level) {
	case SOL_SOCKET:
		return set_socket(s, name, value, length);
	case IPPROTO_TCP:
		return set_tcp(s, name, value, length);
	case IPPROTO_IPV6:
		return set_ipv6(s, name, value, length);
	case SOL_RDMA:
		return set_rdma(s, name, value, length);
	default:
		return -ENOPROTOOPT;
	}
}

static int get_error(struct stream *s)
{
	int error;

	lock_acquire(&s->lock);
	stream_progress(s);
	error = stream_take_error(s);
	lock_release(&s->lock);
	return error;
}

static int get_socket(struct stream *s, int name, int *number)
{
	switch (name) {
	case SO_REUSEADDR:
	case SO_KEEPALIVE:
	case SO_OOBINLINE:
		*number = is_on(s, LEVEL_SOCKET, name);
		return 0;
	case SO_RCVBUF:
		*number = (int)s->receive_bytes;
		return 0;
	case SO_SNDBUF:
		*number = (int)s->send_bytes;
		return 0;
	case SO_ERROR:
		*number = get_error(s);
		return 0;
	case SO_TYPE:
		*number = SOCK_STREAM;
		return 0;
	case SO_ACCEPTCONN:
		*number = s->phase == STREAM_LISTENING;
		return 0;
	case SO_DOMAIN:
		*number = s->family;
		return 0;
	case SO_PROTOCOL:
		*number = IPPROTO_TCP;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int segment_bytes(struct stream *s)
{
	const struct ibv_sa_path_rec *path;
	int bytes;

	lock_acquire(&s->lock);
	path = s->id->route.path_rec;
	bytes = s->id->route.num_paths && path ? 128 << (path->mtu & 7) : 2048;
	lock_release(&s->lock);
	return bytes;
}

static int get_tcp(struct stream *s, int name, int *number)
{
	switch (name) {
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
		*number = 1;
		return 0;
	case TCP_KEEPIDLE:
		*number = (int)s->keepalive_s;
		return 0;
	case TCP_NODELAY:
		*number = is_on(s, LEVEL_TCP, name);
		return 0;
	case TCP_MAXSEG:
		*number = segment_bytes(s);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int get_rdma(struct stream *s, int name, int *number)
{
	switch (name) {
	case RDMA_SQSIZE:
		*number = (int)s->sq_size;
		return 0;
	case RDMA_RQSIZE:
		*number = (int)s->rq_size;
		return 0;
	case RDMA_INLINE:
		*number = (int)s->inline_bytes;
		return 0;
	case RDMA_IOMAPSIZE:
		*number = (int)s->mappings;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int get_number(struct stream *s, int level, int name, int *number)
{
	switch (level) {
	case SOL_SOCKET:
		return get_socket(s, name, number);
	case IPPROTO_TCP:
		return get_tcp(s, name, number);
	case IPPROTO_IPV6:
		*number = is_on(s, LEVEL_IPV6, name);
		return name == IPV6_V6ONLY ? 0 : -ENOPROTOOPT;
	case SOL_RDMA:
		return get_rdma(s, name, number);
	default:
		return -ENOPROTOOPT;
	}
}

/* The route that the program set, or none: librdmacm finds the only path to an address itself. */
static int get_route(const struct stream *s, void *value, socklen_t *length)
{
	if (*length < s->route_bytes)
		return -EINVAL;
	if (s->route)
		memcpy(value, s->route, s->route_bytes);
	*length = (socklen_t)s->route_bytes;
	return 0;
}

/* The counters are 0: programs that report retransmissions see none. */
static void get_info(struct stream *s, struct tcp_info *info)
{
	*info = (struct tcp_info){
		.tcpi_state = s->phase == STREAM_CONNECTED ? TCP_ESTABLISHED : TCP_CLOSE,
		.tcpi_snd_mss = (uint32_t)segment_bytes(s),
		.tcpi_rcv_mss = (uint32_t)segment_bytes(s),
	};
}

static int copy_out(void *value, socklen_t *length, const void *from, size_t bytes)
{
	if (*length > bytes)
		*length = (socklen_t)bytes;
	memcpy(value, from, *length);
	return 0;
}

int option_get(struct stream *s, int level, int name, void *value, socklen_t *length)
{
	struct tcp_info info;
	int number = 0, rc;

	if (!value || !length)
		return -EFAULT;
	if (level == IPPROTO_TCP && name == TCP_INFO) {
		get_info(s, &info);
		return copy_out(value, length, &info, sizeof(info));
	}
	if (level == SOL_SOCKET && name == SO_LINGER)
		return copy_out(value, length, &s->linger, sizeof(s->linger));
	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return get_route(s, value, length);
	rc = get_number(s, level, name, &number);
	return rc ? rc : copy_out(value, length, &number, sizeof(number));
}
