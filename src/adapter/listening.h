/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening - whether packets wake the progress thread, or are found by threads that poll.
 *
 * | state           | a packet wakes      | looks at the ports                             |
 * | --------------- | ------------------- | ---------------------------------------------- |
 * | LISTENS         | the progress thread | the progress thread when woken; pollers        |
 * | LEFT_TO_POLLERS | no thread           | pollers; the progress thread when a lease ends |
 * | TAKES_ALONE     | no thread           | the progress thread, which keeps polling       |
 *
 * In LISTENS alone the ports' sockets are in port_table_epoll. The state changes under listen_lock:
 * a poller leaves LISTENS while the lease is held, the progress thread makes all other moves.
 * See docs/design/progress.md: what counts as a find, and why no packet is slept over.
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
