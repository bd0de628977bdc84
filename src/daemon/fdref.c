#include "daemon/fdref.h"

#include <stdlib.h>
#include <unistd.h>

struct fdref *fdref_create(int fd)
{
	struct fdref *f = malloc(sizeof(*f));

	if (!f) {
		close(fd);
		return NULL;
	}
	f->fd = fd;
	f->count = 1;
	return f;
}

struct fdref *fdref_get(struct fdref *f)
{
	f->count++;
	return f;
}

void fdref_put(struct fdref *f)
{
	if (!f || --f->count)
		return;
	close(f->fd);
	free(f);
}
