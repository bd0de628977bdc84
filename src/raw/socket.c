/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syscall.h"

#define QUEUE_BYTES (8 << 20)

static int ask(int fd, uint32_t ifindex, struct filter_interface *interface)
{
	struct ifreq request = { 0 };

	request.ifr_ifindex = (int)ifindex;
	if (ioctl(fd, SIOCGIFNAME, &request) < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		return -errno;
	interface->is_loopback = request.ifr_flags & IFF_LOOPBACK;
	if (ioctl(fd, SIOCGIFHWADDR, &request) < 0)
		return -errno;
	memcpy(interface->mac, request.ifr_hwaddr.sa_data, sizeof(interface->mac));
	return 0;
}

static int bind_to(const struct raw_socket *socket, uint16_t protocol)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = (int)socket->ifindex,
	};

	return bind(socket->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

/* Enlarges the buffers: to the administrator's limit, or beyond it with CAP_NET_ADMIN. */
static void widen(int fd)
{
	int bytes = QUEUE_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int socket_open(struct raw_socket *raw, uint32_t ifindex)
{
	int on = 1, error;

	memset(raw, 0, sizeof(*raw));
	raw->ifindex = ifindex;
	/* protocol 0: the socket receives nothing until it is bound to a protocol */
	raw->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (raw->fd < 0)
		return -errno;
	error = ask(raw->fd, ifindex, &raw->interface);
	if (!error)
		error = bind_to(raw, 0);
	if (!error && setsockopt(raw->fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) < 0)
		error = -errno;
	if (error) {
		socket_close(raw);
		return error;
	}
	widen(raw->fd);
	return 0;
}

void socket_close(struct raw_socket *socket)
{
	if (socket->fd >= 0)
		close(socket->fd);
	socket->fd = -1;
}

int socket_filter(struct raw_socket *socket, struct sock_filter *code, unsigned count)
{
	struct sock_fprog program = { .len = (unsigned short)count, .filter = code };
	int error;

	if (setsockopt(socket->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0)
		return -errno;
	if (socket->receives)
		return 0;
	error = bind_to(socket, ETH_P_ALL);
	socket->receives = !error;
	return error;
}

int socket_let_in(struct raw_socket *socket, const struct flow *flow, bool on)
{
	struct packet_mreq request = { .mr_ifindex = (int)socket->ifindex,
				       .mr_alen = FLOW_MAC_BYTES };

	switch (flow->wish) {
	case FLOW_ADDRESS:
		request.mr_type = flow->mac[0] & 1 ? PACKET_MR_MULTICAST : PACKET_MR_UNICAST;
		memcpy(request.mr_address, flow->mac, FLOW_MAC_BYTES);
		break;
	case FLOW_GROUPS:
		request.mr_type = PACKET_MR_ALLMULTI;
		break;
	case FLOW_ALL:
		request.mr_type = PACKET_MR_PROMISC;
		break;
	default:
		return 0;
	}
	if (setsockopt(socket->fd, SOL_PACKET, on ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP,
		       &request, sizeof(request)) < 0)
		return -errno;
	return 0;
}

enum socket_result socket_send(struct raw_socket *socket, const void *frame, size_t length)
{
	if (sys_send(socket->fd, frame, length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return SOCKET_SENT;
	switch (errno) {
	case EAGAIN:
		return SOCKET_FULL;
	case EMSGSIZE:
	case EINVAL:
		return SOCKET_TOO_LONG;
	default:
		return SOCKET_LOST;
	}
}

static const struct tpacket_auxdata *find_auxdata(struct msghdr *message)
{
	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head))
		if (head->cmsg_level == SOL_PACKET && head->cmsg_type == PACKET_AUXDATA)
			return (const struct tpacket_auxdata *)CMSG_DATA(head);
	return NULL;
}

bool socket_receive(struct raw_socket *socket, uint8_t *buffer, struct socket_arrival *arrival)
{
	char control[CMSG_SPACE(sizeof(struct tpacket_auxdata))] __attribute__((aligned(8)));
	struct iovec iov = { buffer + SOCKET_VLAN, SOCKET_FRAME_MAX };
	struct sockaddr_ll from = { 0 };
	struct msghdr message = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	const struct tpacket_auxdata *auxdata;
	ssize_t length = sys_recvmsg(socket->fd, &message, MSG_DONTWAIT);

	/* An error is told once, such as that the interface went down: frames may be behind it. */
	if (length < 0 && errno != EAGAIN)
		length = sys_recvmsg(socket->fd, &message, MSG_DONTWAIT);
	if (length < 0)
		return false;
	auxdata = find_auxdata(&message);
	*arrival = (struct socket_arrival){
		.frame = { .bytes = iov.iov_base, .length = (size_t)length },
		.vlan_type = ETHERTYPE_VLAN,
		.outgoing = from.sll_pkttype == PACKET_OUTGOING,
	};
	if (auxdata && auxdata->tp_status & TP_STATUS_VLAN_VALID) {
		arrival->frame.has_vlan = true;
		arrival->frame.vlan = auxdata->tp_vlan_tci;
		if (auxdata->tp_status & TP_STATUS_VLAN_TPID_VALID)
			arrival->vlan_type = auxdata->tp_vlan_tpid;
	}
	return true;
}
