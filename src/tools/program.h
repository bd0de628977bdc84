/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Program - finds the executable of a command, and tells whether LD_LIBRARY_PATH works for it.
 *
 * In:  a name as given to execvp, PATH, the file.
 * Out: its path; of a script its interpreter; a verdict. A file that cannot be read counts as
 *      PROGRAM_FINE, unless it is privileged.
 */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

enum program_verdict {
	PROGRAM_FINE,
	PROGRAM_STATIC,	     /* linked statically: has its own verbs, if any */
	PROGRAM_OTHER_CLASS, /* 32 instead of 64 bits, or for another machine */
	PROGRAM_PRIVILEGED,  /* set-user-ID, set-group-ID or capabilities: secure-execution mode */
};

/* 0; -ENOENT: there is none; -EACCES: it is not executable; -ENAMETOOLONG. */
int program_find(const char *name, char *path, size_t len);

/*
 * The interpreter that a script's first line names (execve(2)); for `env PROGRAM` that program.
 * False: it is no script, or its line is longer than the kernel reads.
 */
bool program_interpreter(const char *path, char *interpreter, size_t len);

enum program_verdict program_judge(const char *path);

#endif
