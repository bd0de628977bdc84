/*
 * Background - makes the process a daemon that owes nothing to whoever started it.
 *
 * In:  a process with any descriptors, signals, directory, terminal and affinity.
 * Out: one with none of these.
 *
 * Called once, in this order, before there is anything else.
 */
#ifndef EVENT_BACKGROUND_H
#define EVENT_BACKGROUND_H

/*
 * Closes every descriptor but stdin, stdout and stderr, which are there afterwards, and the `kept` ones that
 * follow these; resets signals; raises the limit of descriptors as far as it goes. 0 or -errno.
 */
int background_clean(unsigned kept);

/*
 * Returns in a grandchild without a terminal; the caller itself waits for background_report and
 * exits with its status. *report_fd: for background_report. 0 or -errno.
 */
int background_fork(int *report_fd);

/* Leaves the directory and stdin, stdout and stderr of whoever started us. 0 or -errno. */
int background_detach(void);

/* Lets the process that was started exit with this status. */
void background_report(int report_fd, int status);

#endif
