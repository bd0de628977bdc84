/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cable - carries Ethernet frames between two interfaces of its network namespace, as a cable
 * between two network cards does.
 *
 * In:  the names of the interfaces; each is one end of a veth pair, whose other end is in a host's
 *      namespace. Standard input: the cable ends with it.
 * Out: each frame of one on the other, in order, in batches of those that were there at once. A
 *      frame keeps no state of the sender's kernel, above all not the hash of its socket
 *      (skb->hash), by which the receiver's kernel would tell flows apart that a network card
 *      cannot. A line is printed when frames are carried.
 *
 *     cable INTERFACE INTERFACE
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH	     64
#define FRAME_MAX    65600
#define BUFFER_BYTES (64 << 20)

struct direction {
	int from, to;
	struct mmsghdr messages[BATCH];
	struct iovec iov[BATCH];
	unsigned char frames[BATCH][FRAME_MAX];
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int open_on(const char *interface)
{
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), one = 1, bytes = BUFFER_BYTES;
	struct sockaddr_ll address = { .sll_family = AF_PACKET,
				       .sll_protocol = htons(ETH_P_ALL),
				       .sll_ifindex = (int)if_nametoindex(interface) };

	if (fd < 0 || !address.sll_ifindex ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) < 0)
		fail(interface);
	/* In a user namespace as far as the system's limit goes. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return fd;
}

/*
 * A card does not wait for a processor. Behind 16 programs that poll, frames would lie in the
 * sockets for longer than the programs' QPs wait for an acknowledgement.
 */
static void go_before_programs(void)
{
	const struct sched_param priority = { .sched_priority = 1 };

	/* without the right, or without real time for this cgroup, it is as slow as they are */
	if (sched_setscheduler(0, SCHED_FIFO, &priority) < 0 &&
	    setpriority(PRIO_PROCESS, 0, -20) < 0)
		return;
}

static int take(struct direction *d)
{
	int n;

	for (int i = 0; i < BATCH; i++) {
		d->iov[i] = (struct iovec){ d->frames[i], FRAME_MAX };
		d->messages[i].msg_hdr = (struct msghdr){ .msg_iov = &d->iov[i], .msg_iovlen = 1 };
	}
	n = recvmmsg(d->from, d->messages, BATCH, MSG_WAITFORONE, NULL);
	if (n < 0 && errno != EINTR && errno != ENETDOWN)
		fail("recvmmsg");
	return n;
}

static void *carry(void *arg)
{
	struct direction *d = arg;

	go_before_programs();
	for (;;) {
		int n = take(d);

		for (int i = 0; i < n; i++)
			d->iov[i].iov_len = d->messages[i].msg_len;
		/* Frames that the other end does not take are lost. */
		for (int sent = 0, k; sent<n; sent += k> 0 ? k : 1)
			k = sendmmsg(d->to, d->messages + sent, (unsigned)(n - sent), 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct direction directions[2];
	pthread_t thread;
	char byte;

	if (argc != 3) {
		fputs("cable INTERFACE INTERFACE\n", stderr);
		return 2;
	}
	for (int i = 0; i < 2; i++)
		directions[i].from = directions[1 - i].to = open_on(argv[1 + i]);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, carry, &directions[i]))
			fail("pthread_create");
	puts("carries");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
