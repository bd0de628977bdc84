/*
 * Intake - takes what a client sent, with the descriptors that came along.
 *
 * In:  a socket that a client may write to.
 * Out: its messages or bytes. Descriptors go to the close pool, unless they are taken out of a
 * message.
 *
 * A descriptor for which there is no room is closed by the kernel within recvmsg(2), and whoever
 * receives waits for that. So there is always room: for as many as a message can have, and above
 * what else this process may open (intake_limit). What came to lie there counts as lost.
 *
 * Owner: the daemon's one thread. Never blocks.
 */
#ifndef EVENT_INTAKE_H
#define EVENT_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ctl/fdmsg.h"

/* Once, at the start: as many descriptors as this process may have, but for that room. */
void intake_limit(void);

/* As fdmsg_recv, but that *out may be written in any case. */
int intake_message(uid_t uid, int sock, struct fdmsg *out);

/* Those that are left in m. */
void intake_close(uid_t uid, struct fdmsg *m);

/* The next bytes of a unix socket. How many, or -errno. */
ssize_t intake_bytes(uid_t uid, int sock, void *bytes, size_t size);

/* What a client gave is what it ought to be: a unix socket of this type; an eventfd, or the like. */
bool intake_is_unix(int fd, int type);
bool intake_is_anonymous(int fd);

#endif
