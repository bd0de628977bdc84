/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blast - sends the same datagrams again and again.
 *
 * In:  interface, MAC address of the receiver, a file, seconds; how many it sends at least, if need
 *      be for ten times as long; how many it sends a second at most ("inf": as many as one thread
 *      can). The file holds, for each datagram, its length as a 32-bit number of this machine and
 *      then IP header and all, sent as it is: with whatever source address it says.
 * Out: how many were sent, on standard output. Needs the right to open packet sockets.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <time.h>

#define BATCH	      64
#define PAUSE_NS      50000
#define DATAGRAMS_MAX 65536

struct datagrams {
	struct iovec bytes[DATAGRAMS_MAX];
	unsigned count;
};

static void fail(const char *what)
{
	fprintf(stderr, "blast: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void load(const char *path, struct datagrams *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	uint8_t *data;
	size_t at = 0, size;

	if (fd < 0 || fstat(fd, &status))
		fail(path);
	size = (size_t)status.st_size;
	data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		fail(path);
	while (at + sizeof(uint32_t) <= size && out->count < DATAGRAMS_MAX) {
		uint32_t length;

		memcpy(&length, data + at, sizeof(length));
		at += sizeof(length);
		if (length < 20 || length > size - at) {
			errno = EBADMSG;
			fail(path);
		}
		out->bytes[out->count++] = (struct iovec){ data + at, length };
		at += length;
	}
}

static struct sockaddr_ll address_of(const char *interface, const char *mac)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = (int)if_nametoindex(interface),
		.sll_halen = ETH_ALEN,
	};
	uint8_t *b = address.sll_addr;

	if (!address.sll_ifindex)
		fail(interface);
	if (sscanf(mac, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &b[0], &b[1], &b[2], &b[3], &b[4],
		   &b[5]) != ETH_ALEN) {
		errno = EINVAL;
		fail(mac);
	}
	return address;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void pause_shortly(void)
{
	const struct timespec time = { .tv_nsec = PAUSE_NS };

	nanosleep(&time, NULL);
}

/* The next datagrams of the round, those of one version of IP. Returns how many left. */
static unsigned send_batch(int fd, struct sockaddr_ll *address, struct datagrams *all,
			   unsigned first)
{
	struct mmsghdr messages[BATCH];
	unsigned count = 0;
	bool is_ipv6 = *(uint8_t *)all->bytes[first].iov_base >> 4 == 6;
	int sent;

	while (count < BATCH && first + count < all->count &&
	       (*(uint8_t *)all->bytes[first + count].iov_base >> 4 == 6) == is_ipv6) {
		messages[count] = (struct mmsghdr){ .msg_hdr = {
							    .msg_name = address,
							    .msg_namelen = sizeof(*address),
							    .msg_iov = &all->bytes[first + count],
							    .msg_iovlen = 1,
						    } };
		count++;
	}
	address->sll_protocol = htons(is_ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	sent = sendmmsg(fd, messages, count, 0);
	if (sent < 0 && errno != ENOBUFS && errno != EAGAIN)
		fail("sendmmsg");
	return sent > 0 ? (unsigned)sent : 0;
}

int main(int argc, char **argv)
{
	static struct datagrams all;
	struct sockaddr_ll address;
	unsigned long long total = 0;
	unsigned at = 0;
	unsigned long long least;
	double begin, seconds, rate;
	int fd;

	if (argc != 7) {
		fprintf(stderr, "usage: blast INTERFACE MAC FILE SECONDS COUNT RATE\n");
		return 2;
	}
	seconds = atof(argv[4]);
	least = strtoull(argv[5], NULL, 10);
	rate = atof(argv[6]);
	address = address_of(argv[1], argv[2]);
	load(argv[3], &all);
	fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail("socket");
	if (!all.count)
		fail("no datagrams");
	begin = now();
	while (now() < begin + seconds || (total < least && now() < begin + 10 * seconds)) {
		unsigned sent;

		if ((double)total > rate * (now() - begin)) {
			pause_shortly();
			continue;
		}
		sent = send_batch(fd, &address, &all, at);
		total += sent;
		at = (at + sent) % all.count;
	}
	printf("sent %llu\n", total);
	return 0;
}
