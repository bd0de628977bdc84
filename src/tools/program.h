/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Program - finds the file that a command name means, and tells whether the dynamic loader will
 * heed LD_LIBRARY_PATH for it.
 *
 * In:  a name as given to execvp, PATH, the file.
 * Out: its path; a verdict. Best effort: what cannot be read is taken to be fine.
 */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stddef.h>

enum program_verdict {
	PROGRAM_FINE,
	PROGRAM_STATIC,      /* has no dynamic loader, so it uses the verbs it was linked with */
	PROGRAM_OTHER_CLASS, /* 32 bits where this is 64, or another machine */
	PROGRAM_PRIVILEGED,  /* set-user-ID, set-group-ID or capabilities: variables are ignored */
};

/* 0; -ENOENT: there is none; -EACCES: there is, but it may not be executed; -ENAMETOOLONG. */
int program_find(const char *name, char *path, size_t len);

enum program_verdict program_judge(const char *path);

#endif
