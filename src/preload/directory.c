/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interposes opendir, readdir, scandir, glob and their kin. Directories of the tree are lists in
 * memory.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "preload/real.h"
#include "preload/served.h"

/*
 * Programs hold a struct directory as a DIR *. glibc's DIR begins with a descriptor, which never
 * has this value, so the first word tells the two apart.
 */
#define MAGIC UINT64_C(0x7665726261746d00)

struct directory {
	uint64_t magic;
	int fd;
	int count, room, next;
	struct dirent *entries;
};

static struct directory *directory_of(DIR *stream)
{
	struct directory *directory = (struct directory *)stream;

	return stream && directory->magic == MAGIC ? directory : NULL;
}

static void destroy(struct directory *directory)
{
	free(directory->entries);
	free(directory);
}

static int add(void *context, const char *name, enum node_kind kind)
{
	static const unsigned char types[] = {
		[NODE_DIRECTORY] = DT_DIR,
		[NODE_FILE] = DT_REG,
		[NODE_LINK] = DT_LNK,
		[NODE_DEVICE] = DT_CHR,
	};
	struct directory *directory = context;
	struct dirent *entry;

	if (directory->count == directory->room) {
		int room = directory->room ? 2 * directory->room : 32;

		entry = realloc(directory->entries, room * sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		directory->entries = entry;
		directory->room = room;
	}
	entry = &directory->entries[directory->count++];
	memset(entry, 0, sizeof(*entry));
	entry->d_ino = directory->count;
	entry->d_off = directory->count;
	entry->d_reclen = sizeof(*entry);
	entry->d_type = types[kind];
	strcpy(entry->d_name, name);
	return 0;
}

/* On success the directory owns the descriptor. NULL and errno. */
static struct directory *create(const struct served *served, int fd)
{
	struct directory *directory = calloc(1, sizeof(*directory));
	int rc;

	if (!directory)
		return NULL;
	directory->magic = MAGIC;
	directory->fd = fd;
	rc = add(directory, ".", NODE_DIRECTORY);
	if (rc == 0)
		rc = add(directory, "..", NODE_DIRECTORY);
	if (rc == 0)
		rc = tree_list(&served->view, &served->node, add, directory);
	if (rc == 0)
		return directory;
	destroy(directory);
	errno = -rc;
	return NULL;
}

static struct directory *create_opened(const struct served *served)
{
	struct directory *directory;
	int fd = served_open(served, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	directory = create(served, fd);
	if (!directory)
		close(fd);
	return directory;
}

static __attribute__((noinline)) DIR *opendir_served(const char *path)
{
	struct directory *directory;
	struct served served;
	int rc = served_begin(AT_FDCWD, path, true, &served);

	if (rc == WALKED_REAL)
		return real()->opendir(path);
	if (rc == WALKED_ELSEWHERE)
		return real()->opendir(served.elsewhere);
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	directory = create_opened(&served);
	served_end(&served);
	return (DIR *)directory;
}

PRELOAD_EXPORT DIR *opendir(const char *path)
{
	if (served_concerns(AT_FDCWD, path))
		return opendir_served(path);
	return real()->opendir(path);
}

PRELOAD_EXPORT DIR *fdopendir(int fd)
{
	struct directory *directory = NULL;
	struct served served;

	if (fd < 0 || served_begin_fd(fd, &served) != WALKED_NODE)
		return real()->fdopendir(fd);
	if (served.node.kind == NODE_DIRECTORY)
		directory = create(&served, fd);
	else
		errno = ENOTDIR;
	served_end(&served);
	return (DIR *)directory;
}

PRELOAD_EXPORT struct dirent *readdir(DIR *stream)
{
	struct directory *directory = directory_of(stream);

	if (!directory)
		return real()->readdir(stream);
	return directory->next < directory->count ? &directory->entries[directory->next++] : NULL;
}

PRELOAD_EXPORT int readdir_r(DIR *stream, struct dirent *entry, struct dirent **result)
{
	struct directory *directory = directory_of(stream);
	struct dirent *next;

	if (!directory)
		return real()->readdir_r(stream, entry, result);
	next = readdir(stream);
	if (next) /* readdir_r(3): the caller's entry ends with the longest name, without padding */
		memcpy(entry, next, offsetof(struct dirent, d_name) + strlen(next->d_name) + 1);
	*result = next ? entry : NULL;
	return 0;
}

PRELOAD_EXPORT int closedir(DIR *stream)
{
	struct directory *directory = directory_of(stream);
	int rc;

	if (!directory)
		return real()->closedir(stream);
	rc = close(directory->fd);
	destroy(directory);
	return rc;
}

PRELOAD_EXPORT void rewinddir(DIR *stream)
{
	struct directory *directory = directory_of(stream);

	if (directory)
		directory->next = 0;
	else
		real()->rewinddir(stream);
}

PRELOAD_EXPORT void seekdir(DIR *stream, long position)
{
	struct directory *directory = directory_of(stream);

	if (!directory)
		real()->seekdir(stream, position);
	else if (position >= 0 && position <= directory->count)
		directory->next = position;
}

PRELOAD_EXPORT long telldir(DIR *stream)
{
	struct directory *directory = directory_of(stream);

	return directory ? directory->next : real()->telldir(stream);
}

PRELOAD_EXPORT int dirfd(DIR *stream)
{
	struct directory *directory = directory_of(stream);

	return directory ? directory->fd : real()->dirfd(stream);
}

typedef int (*choose_fn)(const struct dirent *entry);
typedef int (*compare_fn)(const struct dirent **left, const struct dirent **right);

static void free_all(struct dirent **list, int count)
{
	while (count > 0)
		free(list[--count]);
	free(list);
}

/* scandir(3) on a list in memory: the number of entries, or -1 and errno. */
static int scan(const struct directory *directory, struct dirent ***out, choose_fn choose,
		compare_fn compare)
{
	struct dirent **list = calloc(directory->count, sizeof(struct dirent *));
	int kept = 0;

	if (!list)
		return -1;
	for (int i = 0; i < directory->count; i++) {
		const struct dirent *entry = &directory->entries[i];

		if (choose && !choose(entry))
			continue;
		list[kept] = malloc(sizeof(*entry));
		if (!list[kept]) {
			free_all(list, kept);
			errno = ENOMEM;
			return -1;
		}
		*list[kept++] = *entry;
	}
	if (compare)
		qsort(list, kept, sizeof(struct dirent *),
		      (int (*)(const void *, const void *))compare);
	*out = list;
	return kept;
}

static __attribute__((noinline)) int scandir_served(int directory_fd, const char *path,
						    struct dirent ***out, choose_fn choose,
						    compare_fn compare)
{
	struct directory *directory;
	struct served served;
	int rc = served_begin(directory_fd, path, true, &served);

	if (rc == WALKED_REAL)
		return real()->scandirat(directory_fd, path, out, choose, compare);
	if (rc == WALKED_ELSEWHERE)
		return real()->scandir(served.elsewhere, out, choose, compare);
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	directory = create_opened(&served);
	served_end(&served);
	if (!directory)
		return -1;
	rc = scan(directory, out, choose, compare);
	close(directory->fd);
	destroy(directory);
	return rc;
}

PRELOAD_EXPORT int scandir(const char *path, struct dirent ***out, choose_fn choose,
			   compare_fn compare)
{
	if (served_concerns(AT_FDCWD, path))
		return scandir_served(AT_FDCWD, path, out, choose, compare);
	return real()->scandir(path, out, choose, compare);
}

PRELOAD_EXPORT int scandirat(int directory_fd, const char *path, struct dirent ***out,
			     choose_fn choose, compare_fn compare)
{
	if (served_concerns(directory_fd, path))
		return scandir_served(directory_fd, path, out, choose, compare);
	return real()->scandirat(directory_fd, path, out, choose, compare);
}

static void close_directory(void *stream)
{
	closedir(stream);
}

/* glibc's glob calls interposed functions only through GLOB_ALTDIRFUNC. */
PRELOAD_EXPORT int glob(const char *pattern, int flags,
			int (*on_error)(const char *path, int error), glob_t *out)
{
	if (flags & GLOB_ALTDIRFUNC || !served_concerns(AT_FDCWD, pattern))
		return real()->glob(pattern, flags, on_error, out);
	out->gl_opendir = (void *(*)(const char *))opendir;
	out->gl_readdir = (struct dirent * (*)(void *)) readdir;
	out->gl_closedir = close_directory;
	out->gl_stat = stat;
	out->gl_lstat = lstat;
	return real()->glob(pattern, flags | GLOB_ALTDIRFUNC, on_error, out);
}

ALSO_AS(readdir64, readdir);
ALSO_AS(readdir64_r, readdir_r);
ALSO_AS(scandir64, scandir);
ALSO_AS(scandirat64, scandirat);
ALSO_AS(glob64, glob);
