/* SPDX-License-Identifier: BSD-2-Clause */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/program.h"

static char dir[] = "/tmp/test_program.XXXXXX";
static char path[64];

/* The header and program headers of this very test: of the right machine, and dynamic. */
static struct {
	ElfW(Ehdr) elf;
	ElfW(Phdr) segments[2];
} image;

static int setup(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY);

	if (!mkdtemp(dir) || read(fd, &image.elf, sizeof(image.elf)) != sizeof(image.elf))
		return -1;
	close(fd);
	snprintf(path, sizeof(path), "%s/program", dir);
	image.elf.e_phoff = sizeof(image.elf);
	image.elf.e_phentsize = sizeof(image.segments[0]);
	image.elf.e_phnum = 2;
	image.segments[0].p_type = PT_LOAD;
	image.segments[1].p_type = PT_INTERP;
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void write_program(const void *data, size_t len, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void names_are_found_as_execvp_does(void **state)
{
	char found[PATH_MAX], *before = strdup(getenv("PATH")), here[PATH_MAX];

	write_program("", 0, 0755);
	assert_int_equal(program_find("sh", found, sizeof(found)), 0);
	assert_int_equal(program_find("no-such-program", found, sizeof(found)), -ENOENT);
	assert_int_equal(program_find("", found, sizeof(found)), -ENOENT);
	assert_int_equal(program_find("/no/such", found, sizeof(found)), -ENOENT);
	assert_int_equal(program_find(dir, found, sizeof(found)), -EACCES);
	assert_int_equal(program_find(path, found, sizeof(found)), 0);
	assert_string_equal(found, path);
	assert_int_equal(program_find(path, found, 5), -ENAMETOOLONG);

	setenv("PATH", dir, 1);
	assert_int_equal(program_find("program", found, sizeof(found)), 0);
	assert_string_equal(found, path);
	assert_int_equal(program_find("sh", found, sizeof(found)), -ENOENT);
	chmod(path, 0644);
	assert_int_equal(program_find("program", found, sizeof(found)), -EACCES);
	chmod(path, 0755);

	/* An empty element is the current directory. */
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(dir), 0);
	setenv("PATH", "/nowhere:/nowhere", 1);
	assert_int_equal(program_find("program", found, sizeof(found)), -ENOENT);
	setenv("PATH", "/nowhere:", 1);
	assert_int_equal(program_find("program", found, sizeof(found)), 0);
	setenv("PATH", "/nowhere::/nowhere", 1);
	assert_int_equal(program_find("program", found, sizeof(found)), 0);
	assert_int_equal(chdir(here), 0);
	setenv("PATH", before, 1);
	free(before);
}

static void dynamic_programs_and_scripts_are_fine(void **state)
{
	assert_int_equal(program_judge("/proc/self/exe"), PROGRAM_FINE);
	assert_int_equal(program_judge("/no/such"), PROGRAM_FINE);
	write_program("#!/bin/sh\n", 10, 0755);
	assert_int_equal(program_judge(path), PROGRAM_FINE);
	write_program("", 0, 0755);
	assert_int_equal(program_judge(path), PROGRAM_FINE);
	write_program(&image, sizeof(image), 0755);
	assert_int_equal(program_judge(path), PROGRAM_FINE);
}

static void write_script(const char *text)
{
	write_program(text, strlen(text), 0755);
}

static void expect_interpreter(const char *text, const char *expected)
{
	char found[PATH_MAX];

	write_script(text);
	assert_int_equal(program_interpreter(path, found, sizeof(found)), expected != NULL);
	if (expected)
		assert_string_equal(found, expected);
}

static void interpreters_of_scripts_are_found(void **state)
{
	char long_line[400], sh[PATH_MAX], short_room[4];

	assert_int_equal(program_find("sh", sh, sizeof(sh)), 0);
	expect_interpreter("#!/bin/sh\n", "/bin/sh");
	expect_interpreter("#! \t/bin/sh -e x\ny", "/bin/sh");
	expect_interpreter("#!relative/env-of-ours sh\n", "relative/env-of-ours");
	expect_interpreter("#!/usr/bin/env sh\n", sh);
	expect_interpreter("#!/usr/bin/env -S A=1 sh -e\n", sh);
	expect_interpreter("#!/usr/bin/env no-such-program\n", "/usr/bin/env");
	expect_interpreter("#!/usr/bin/env\n", "/usr/bin/env");
	expect_interpreter("#!\n", NULL);
	expect_interpreter("#!/bin/sh", "/bin/sh");
	expect_interpreter("echo\n", NULL);
	expect_interpreter("", NULL);
	snprintf(long_line, sizeof(long_line), "#!/%0300d\n", 0);
	expect_interpreter(long_line, NULL);
	write_script("#!/bin/sh\n");
	assert_false(program_interpreter(path, short_room, sizeof(short_room)));
	assert_false(program_interpreter("/no/such", sh, sizeof(sh)));
}

static void static_programs_are_noticed(void **state)
{
	image.segments[1].p_type = PT_NOTE;
	write_program(&image, sizeof(image), 0755);
	assert_int_equal(program_judge(path), PROGRAM_STATIC);
	image.segments[1].p_type = PT_INTERP;
}

static void other_machines_are_noticed(void **state)
{
	image.elf.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64;
	write_program(&image, sizeof(image), 0755);
	assert_int_equal(program_judge(path), PROGRAM_OTHER_CLASS);
	image.elf.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64;
	image.elf.e_machine ^= 1;
	write_program(&image, sizeof(image), 0755);
	assert_int_equal(program_judge(path), PROGRAM_OTHER_CLASS);
	image.elf.e_machine ^= 1;
}

static void broken_headers_do_no_harm(void **state)
{
	ElfW(Ehdr) good = image.elf;

	image.elf.e_phoff = UINT64_MAX - 8;
	write_program(&image, sizeof(image), 0755);
	assert_int_equal(program_judge(path), PROGRAM_FINE);
	image.elf.e_phoff = 1 << 30;
	image.elf.e_phnum = UINT16_MAX;
	write_program(&image, sizeof(image), 0755);
	assert_int_equal(program_judge(path), PROGRAM_FINE);
	image.elf = good;
	image.elf.e_phentsize = 1;
	write_program(&image, sizeof(image), 0755);
	assert_int_equal(program_judge(path), PROGRAM_FINE);
	image.elf = good;
	write_program(&image, sizeof(image.elf) - 1, 0755);
	assert_int_equal(program_judge(path), PROGRAM_FINE);
}

static void set_user_id_is_noticed(void **state)
{
	pid_t child;
	int status;

	write_program(&image, sizeof(image), 0755);
	/* Only root can make a file another's, and only another's changes the user. */
	if (chown(path, getuid() + 1, (gid_t)-1) != 0)
		skip();
	assert_int_equal(program_judge(path), PROGRAM_FINE);
	assert_int_equal(chmod(path, 04755), 0);
	assert_int_equal(program_judge(path), PROGRAM_PRIVILEGED);
	/* Its users can execute, and not read it. */
	assert_int_equal(chmod(path, 04711), 0);
	assert_int_equal(chmod(dir, 0711), 0);
	child = fork();
	if (child == 0)
		_exit(setuid(12345) || open(path, O_RDONLY) >= 0 ||
		      program_judge(path) != PROGRAM_PRIVILEGED);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found_as_execvp_does),
		cmocka_unit_test(dynamic_programs_and_scripts_are_fine),
		cmocka_unit_test(interpreters_of_scripts_are_found),
		cmocka_unit_test(static_programs_are_noticed),
		cmocka_unit_test(other_machines_are_noticed),
		cmocka_unit_test(broken_headers_do_no_harm),
		cmocka_unit_test(set_user_id_is_noticed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
