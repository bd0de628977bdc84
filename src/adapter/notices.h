/*
 * Notices - what passes between verbatimd and the progress thread: its notices, what is asked of it
 * without waiting, and another one, once it is lost.
 *
 * In:  verbatimd's socket.
 * Out: links and groups that follow what it tells (adapter/peers.h, adapter/group.h).
 *
 * The progress thread alone; it waits for verbatimd only while that is looked for, in short
 * attempts.
 */
#ifndef ADAPTER_NOTICES_H
#define ADAPTER_NOTICES_H

#include <stdint.h>

#include "ctl/client.h"

/*
 * Before the progress thread is there. `epoll`: watches verbatimd's socket; another one is added
 * here.
 */
void notices_start(struct ctl_client *ctl, int epoll);

/* verbatimd's socket. */
int notices_fd(void);

/*
 * Takes what there is, asks what there is to be asked, and goes on looking for a verbatimd that is
 * lost.
 */
void notices_take(void);

/* When that is to be done although nothing calls, CLOCK_MONOTONIC; UINT64_MAX: it is not. */
uint64_t notices_due_ns(void);

#endif
