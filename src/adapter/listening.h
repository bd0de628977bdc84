/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening - whether packets wake the progress thread, or are found by threads that poll.
 *
 * The ports' sockets are in an epoll descriptor of their own (port_table_epoll), which the progress
 * thread's epoll watches, edge-triggered. While threads poll, a packet would wake the progress
 * thread, too. And a socket in an epoll descriptor costs the sender of each packet on this host a
 * quarter of a microsecond. So while the progress thread does not listen, the sockets leave the
 * descriptor (port_table_listen).
 *
 * | state           | a packet wakes      | looks at the ports                             |
 * | --------------- | ------------------- | ---------------------------------------------- |
 * | LISTENS         | the progress thread | the progress thread when woken; pollers        |
 * | LEFT_TO_POLLERS | no thread           | pollers; the progress thread when a lease ends |
 * | TAKES_ALONE     | no thread           | the progress thread, which keeps polling       |
 *
 * | state           | event           | condition                          | next state      |
 * | --------------- | --------------- | ---------------------------------- | --------------- |
 * | LISTENS         | on_renewal      | enough finds (below), lease held   | LEFT_TO_POLLERS |
 * | LEFT_TO_POLLERS | on_lease_end    | on_last_look judges what it was    | LISTENS         |
 * | LISTENS         | on_keep_polling | a stream, no lease, few ports      | TAKES_ALONE     |
 * | TAKES_ALONE     | on_keep_polling | not so any more                    | LISTENS         |
 * | TAKES_ALONE     | on_quiet        |                                    | LISTENS         |
 *
 * The kernel may have no memory to listen. Then the state is LEFT_TO_POLLERS, with a lease or
 * without; without one the progress thread looks each millisecond and tries again.
 *
 * LEFT_TO_POLLERS is decided by evidence. `finds` counts when listening was useless:
 *   - A poller finds packets by itself.
 *   - The progress thread finds packets while a thread of the program is sending, or was at the
 *     ports PRESENT_NS ago: that thread would have found them a moment later.
 * A find of the progress thread at another time takes THREAD_FIND off the count. At `finds_needed`
 * the poller that renews the lease stops the listening. Packets in the sockets at the end of such a
 * lease show a program that does not poll when packets come (it may wait for memory to change):
 * that doubles finds_needed, up to FINDS_MAX. A lease that ends with empty sockets halves it, down
 * to FINDS_MIN. So a program that polls all the time gets its packets without a wake-up. A program
 * that polls between waits loses a lease now and then at most; a program that does not poll loses
 * nothing.
 *
 * TAKES_ALONE is for a stream at ALONE_PORTS ports or less: STREAM_FINDS finds of the progress
 * thread since it slept or another source called it. The progress thread leaves this state before
 * it sleeps. Meanwhile it lends no lease to a thread that it finds at a port: it looks so often
 * that even a thread that polls once would pass for a poller.
 *
 * The progress thread never sleeps while a packet waits without another thread that will take it:
 *   - Before it sleeps it has looked until no packet was left, or another thread was at the port
 *     and there is a lease. At the lease's end it looks, whatever that thread has left.
 *   - A packet after that look is a new edge, even while others wait: the kernel reports each.
 *   - The look follows the beginning of LISTENS. EPOLL_CTL_ADD reports packets that wait, which
 *     covers those of TAKES_ALONE.
 *   - A poller leaves LISTENS under listen_lock, only while the lease is held, after it has set
 *     the lease timer: the timer fires, or arming ends the lease and wakes the progress thread.
 *   - Looks find a new port before its socket is listened to (adapter/ports.h).
 */
#ifndef ADAPTER_LISTENING_H
#define ADAPTER_LISTENING_H

#include <stdbool.h>
#include <stdint.h>

/* `epoll`: the progress thread's, which watches port_table_epoll for LISTENING_EVENTS at first. */
#define LISTENING_EVENTS (EPOLLIN | EPOLLET)
void listening_init(int epoll);

/* The calling thread is the progress thread. */
void listening_begin(void);

/* A thread that polls has looked at the ports at `now`, and found packets or not. */
void listening_on_look(uint64_t now_ns, bool found);
/* A thread that polls has renewed the poll lease. */
void listening_on_renewal(void);

/* Any thread: around each sending of packets. */
void listening_on_send_begin(void);
void listening_on_send_end(void);

/* All below: called by the progress thread. It has found packets. */
void listening_on_find(uint64_t now_ns);
/* Another source than packets has called it. */
void listening_on_other_call(void);
/* It keeps polling before it sleeps. True: TAKES_ALONE, so it has to look at the ports. */
bool listening_on_keep_polling(void);
/* It has kept polling for long enough, and is about to wait. */
void listening_on_quiet(void);
/* The poll lease is over. True: the look that follows is the last one of LEFT_TO_POLLERS. */
bool listening_on_lease_end(void);
/* The last look has found packets or not. */
void listening_on_last_look(bool found);

/* TAKES_ALONE. */
bool listening_takes_alone(void);
/* LISTENS: epoll tells of packets. */
bool listening_is_on(void);

void listening_reset_after_fork(void);

#endif
