/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <paths.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

static int check_file(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return -errno;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

int program_find(const char *name, char *path, size_t len)
{
	const char *dirs = getenv("PATH"), *end;
	int result = -ENOENT;

	if (!*name)
		return -ENOENT;
	if (strchr(name, '/')) {
		if (snprintf(path, len, "%s", name) >= (int)len)
			return -ENAMETOOLONG;
		return check_file(path);
	}

	for (dirs = dirs ? dirs : _PATH_DEFPATH; dirs; dirs = *end ? end + 1 : NULL) {
		int dir_len, rc;

		end = strchrnul(dirs, ':');
		dir_len = end - dirs < PATH_MAX ? (int)(end - dirs) : PATH_MAX;
		/* An empty element is the current directory. */
		if (snprintf(path, len, "%.*s%s%s", dir_len, dirs, dir_len ? "/" : "./", name) >=
		    (int)len)
			continue;
		rc = check_file(path);
		if (rc == 0)
			return 0;
		if (rc == -EACCES)
			result = -EACCES;
	}
	return result;
}

/* What the kernel reads of a script, execve(2). */
#define FIRST_LINE 256
#define BLANKS	   " \t"

/* The first line of a script without its "#!"; false: there is none. */
static bool read_first_line(const char *path, char line[FIRST_LINE])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t bytes;
	char *end;

	if (fd < 0)
		return false;
	bytes = pread(fd, line, FIRST_LINE - 1, 0);
	close(fd);
	if (bytes < 2 || memcmp(line, "#!", 2) != 0)
		return false;
	line[bytes] = 0;
	end = strchr(line, '\n');
	if (end)
		*end = 0;
	else if (bytes == FIRST_LINE - 1)
		return false;
	memmove(line, line + 2, strlen(line + 2) + 1);
	return true;
}

/* Of `env [OPTION]... [NAME=VALUE]... PROGRAM`; NULL: it names none. */
static const char *program_of_env(char **rest)
{
	const char *word;

	while ((word = strtok_r(NULL, BLANKS, rest)) != NULL)
		if (*word != '-' && !strchr(word, '='))
			return word;
	return NULL;
}

bool program_interpreter(const char *path, char *interpreter, size_t len)
{
	char line[FIRST_LINE], *rest;
	const char *word, *name;

	if (!read_first_line(path, line))
		return false;
	word = strtok_r(line, BLANKS, &rest);
	if (!word)
		return false;
	name = strrchr(word, '/');
	if (!strcmp(name ? name + 1 : word, "env")) {
		const char *of_env = program_of_env(&rest);

		if (of_env && !program_find(of_env, interpreter, len))
			return true;
	}
	return snprintf(interpreter, len, "%s", word) < (int)len;
}

static bool changes_user(const struct stat *st)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return ((st->st_mode & S_ISUID) && st->st_uid != getuid()) ||
	       ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getgid());
}

/* Whether the kernel sets AT_SECURE. Capabilities of the file do, even where they are not gained.
 */
static bool is_privileged(const char *path)
{
	struct statvfs fs;
	struct stat st;

	if (stat(path, &st) != 0 || (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID)))
		return false;
	if (changes_user(&st))
		return true;
	return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* The file is not trusted: its numbers are bounded before use. */
static bool has_interpreter(int fd, const ElfW(Ehdr) * elf)
{
	ElfW(Phdr) segment;

	if (elf->e_phentsize != sizeof(segment))
		return true;
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		uint64_t offset = elf->e_phoff + (uint64_t)i * sizeof(segment);

		if (offset > INT64_MAX ||
		    pread(fd, &segment, sizeof(segment), (off_t)offset) != sizeof(segment))
			return true;
		if (segment.p_type == PT_INTERP)
			return true;
	}
	return false;
}

enum program_verdict program_judge(const char *path)
{
	enum program_verdict verdict = PROGRAM_FINE;
	ElfW(Ehdr) own, elf;
	int fd, own_fd;

	/* Such a program may be one that its user can execute, and not read. */
	if (is_privileged(path))
		return PROGRAM_PRIVILEGED;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return PROGRAM_FINE;
	own_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
		verdict = PROGRAM_FINE; /* no ELF file */
	else if (elf.e_ident[EI_CLASS] != OWN_CLASS ||
		 (pread(own_fd, &own, sizeof(own), 0) == sizeof(own) &&
		  own.e_machine != elf.e_machine))
		verdict = PROGRAM_OTHER_CLASS;
	else if (!has_interpreter(fd, &elf))
		verdict = PROGRAM_STATIC;
	if (own_fd >= 0)
		close(own_fd);
	close(fd);
	return verdict;
}
