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
 *     cable INTERFACE INTERFACE [MICROSECONDS]
 *
 * With MICROSECONDS it is a long one: each frame arrives so much later, and trains that the
 * sender's kernel has not cut (GSO) stay whole, so that the path is as fast as one without a cable.
 * Linux since 6.2 shows trains of UDP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH	     64
#define FRAME_MAX    65600
#define BUFFER_BYTES (64 << 20)
#define QUEUE_FRAMES 4096 /* on a long cable at once; the interface's queue holds the others */
#define NS	     UINT64_C(1000000000)

struct direction {
	int from, to;
	struct mmsghdr messages[BATCH];
	struct iovec iov[BATCH];
	unsigned char frames[BATCH][FRAME_MAX];
};

/* One way of a long cable: one thread puts frames in at the tail, another takes them at the head.
 */
struct queue {
	int from, to;
	uint64_t delay_ns;
	pthread_mutex_t lock; /* of head and tail */
	pthread_cond_t filled, emptied;
	unsigned head, tail;
	struct {
		uint64_t due_ns;
		size_t bytes;
		unsigned char frame[FRAME_MAX];
	} entries[QUEUE_FRAMES];
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int open_on(const char *interface, bool trains)
{
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), one = 1, bytes = BUFFER_BYTES;
	struct sockaddr_ll address = { .sll_family = AF_PACKET,
				       .sll_protocol = htons(ETH_P_ALL),
				       .sll_ifindex = (int)if_nametoindex(interface) };

	if (fd < 0 || !address.sll_ifindex ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) < 0 ||
	    (trains && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) < 0))
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

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static void *put_in(void *arg)
{
	struct queue *q = arg;

	go_before_programs();
	for (;;) {
		ssize_t bytes;

		pthread_mutex_lock(&q->lock);
		while (q->tail - q->head == QUEUE_FRAMES)
			pthread_cond_wait(&q->emptied, &q->lock);
		pthread_mutex_unlock(&q->lock);
		/* the entry at the tail is this thread's */
		bytes = recv(q->from, q->entries[q->tail % QUEUE_FRAMES].frame, FRAME_MAX, 0);
		if (bytes < 0 && errno != EINTR && errno != ENETDOWN && errno != EINVAL)
			fail("recv");
		if (bytes < 0)
			continue; /* EINVAL: PACKET_VNET_HDR cannot describe the frame */
		q->entries[q->tail % QUEUE_FRAMES].bytes = (size_t)bytes;
		q->entries[q->tail % QUEUE_FRAMES].due_ns = now() + q->delay_ns;
		pthread_mutex_lock(&q->lock);
		q->tail++;
		pthread_cond_signal(&q->filled);
		pthread_mutex_unlock(&q->lock);
	}
	return NULL;
}

static void *take_out(void *arg)
{
	struct queue *q = arg;

	go_before_programs();
	for (;;) {
		unsigned tail;

		pthread_mutex_lock(&q->lock);
		while (q->tail == q->head)
			pthread_cond_wait(&q->filled, &q->lock);
		tail = q->tail;
		pthread_mutex_unlock(&q->lock);
		/* the entries from head to tail are this thread's */
		for (unsigned i = q->head; i != tail; i++) {
			uint64_t due_ns = q->entries[i % QUEUE_FRAMES].due_ns;
			const struct timespec due = { (time_t)(due_ns / NS), (long)(due_ns % NS) };

			if (now() < due_ns)
				clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
			/* A frame that the other end does not take is lost. */
			(void)!send(q->to, q->entries[i % QUEUE_FRAMES].frame,
				    q->entries[i % QUEUE_FRAMES].bytes, 0);
		}
		pthread_mutex_lock(&q->lock);
		q->head = tail;
		pthread_cond_signal(&q->emptied);
		pthread_mutex_unlock(&q->lock);
	}
	return NULL;
}

static void begin(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		fail("pthread_create");
}

int main(int argc, char **argv)
{
	static struct direction directions[2];
	static struct queue queues[2];
	uint64_t delay_ns = argc == 4 ? strtoull(argv[3], NULL, 10) * 1000 : 0;
	int ends[2];
	char byte;

	if (argc != 3 && !delay_ns) {
		fputs("cable INTERFACE INTERFACE [MICROSECONDS]\n", stderr);
		return 2;
	}
	for (int i = 0; i < 2; i++)
		ends[i] = open_on(argv[1 + i], delay_ns > 0);
	for (int i = 0; i < 2; i++) {
		if (!delay_ns) {
			directions[i].from = ends[i];
			directions[i].to = ends[1 - i];
			begin(carry, &directions[i]);
			continue;
		}
		queues[i].from = ends[i];
		queues[i].to = ends[1 - i];
		queues[i].delay_ns = delay_ns;
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].filled, NULL);
		pthread_cond_init(&queues[i].emptied, NULL);
		begin(put_in, &queues[i]);
		begin(take_out, &queues[i]);
	}
	puts("carries");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
