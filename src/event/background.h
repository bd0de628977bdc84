/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Background - makes the process a daemon that inherits nothing from the program that started it.
 *
 * In:  a process with any descriptors, signals, directory, terminal and affinity.
 * Out: a process with defaults for all of these.
 *
 * Called once, in this order, before anything else.
 */
#ifndef EVENT_BACKGROUND_H
#define EVENT_BACKGROUND_H

/*
 * Closes every descriptor but stdin, stdout, stderr and the `kept` ones that follow; opens those of
 * the three that are missing. Resets signals, and raises the limit of descriptors as far as
 * possible. 0 or -errno.
 */
int background_clean(unsigned kept);

/*
 * Returns in a grandchild without a terminal; the caller itself waits for background_report and
 * exits with its status. *report_fd: for background_report. 0 or -errno.
 */
int background_fork(int *report_fd);

/* Leaves the directory, stdin, stdout and stderr of the program that started us. 0 or -errno. */
int background_detach(void);

/* Lets the process that called background_fork exit with this status. */
void background_report(int report_fd, int status);

#endif
