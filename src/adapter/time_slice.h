/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time slice - asks the scheduler for short time slices (EEVDF, Linux 6.12), so that the calling
 * thread is run soon after it wakes up.
 *
 * A program may spin on memory that the progress thread is to write. With no more processors than
 * such programs, the progress thread would wait for the end of their time slices, which is
 * milliseconds.
 *
 * Does nothing under an older kernel, or if the thread has another policy than SCHED_OTHER.
 */
#ifndef ADAPTER_TIME_SLICE_H
#define ADAPTER_TIME_SLICE_H

void time_slice_shorten(void);

#endif
