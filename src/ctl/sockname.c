#include "ctl/sockname.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_space(const char *whose, struct sockname_space *space)
{
	const char *name = secure_getenv("VERBATIM_NAMESPACE");

	if (!name || !*name) {
		snprintf(space->text, sizeof(space->text), "verbatim.%s", whose);
		return 0;
	}
	if (strlen(name) > SOCKNAME_NAMESPACE_MAX)
		return -ENAMETOOLONG;
	snprintf(space->text, sizeof(space->text), "verbatim.%s.%s", whose, name);
	return 0;
}

int sockname_space_of_system(struct sockname_space *space)
{
	return make_space("system", space);
}

int sockname_space_of_user(uid_t uid, struct sockname_space *space)
{
	char whose[16];

	snprintf(whose, sizeof(whose), "%u", (unsigned)uid);
	return make_space(whose, space);
}

static void make_abstract(const char *text, struct sockname *out)
{
	size_t len = strlen(text);

	memset(out, 0, sizeof(*out));
	out->addr.sun_family = AF_UNIX;
	memcpy(out->addr.sun_path + 1, text, len);
	out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

void sockname_of_daemon(const struct sockname_space *space, struct sockname *out)
{
	make_abstract(space->text, out);
}

void sockname_of_slot(const struct sockname_space *space, unsigned slot, struct sockname *out)
{
	char text[sizeof(out->addr.sun_path)];

	snprintf(text, sizeof(text), "%.90s.slot.%u", space->text, slot);
	make_abstract(text, out);
}

#define SESSION_FORMAT "%.90s.session."

void sockname_of_session(const struct sockname_space *space, uint32_t session, struct sockname *out)
{
	char text[sizeof(out->addr.sun_path)];

	snprintf(text, sizeof(text), SESSION_FORMAT "%08" PRIx32, space->text, session);
	make_abstract(text, out);
}

void sockname_each_session(const struct sockname_space *space,
			   void (*each)(uint32_t session, void *arg), void *arg)
{
	char prefix[sizeof(space->text) + 16], line[256];
	FILE *f = fopen("/proc/net/unix", "re");
	uint32_t session;
	int end;

	snprintf(prefix, sizeof(prefix), "@" SESSION_FORMAT, space->text);
	while (f && fgets(line, sizeof(line), f)) {
		const char *name = strchr(line, '@');

		if (name && !strncmp(name, prefix, strlen(prefix)) &&
		    sscanf(name + strlen(prefix), "%8" SCNx32 "%n", &session, &end) == 1 && end == 8)
			each(session, arg);
	}
	if (f)
		fclose(f);
}

bool sockname_equal(const struct sockname *a, const struct sockname *b)
{
	return a->len == b->len && !memcmp(&a->addr, &b->addr, a->len);
}
