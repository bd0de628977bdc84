/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening of streams - creates a stream, and its QP, CQ and buffers.
 */
#ifndef RSOCKET_STREAM_OPEN_H
#define RSOCKET_STREAM_OPEN_H

#include "rsocket/stream.h"

/*
 * A stream with one reference, in no table yet. Its options are the defaults, or those of
 * `listener`. 0 or -errno.
 */
int stream_create(int family, const struct stream *listener, struct stream **stream);

/*
 * Creates QP, CQ and buffers on the device of the id, and posts the receives. 0 or -errno; after an
 * error the stream's destruction frees what was created.
 */
int stream_open(struct stream *s) REQUIRES(s->lock);

#endif
