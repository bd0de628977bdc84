/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/refusal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/gid.h"

static _Thread_local struct {
	enum cause cause; /* CAUSE_NONE: none was kept */
	char text[192];
} in_hand;

int refusal(int rc, enum cause cause, const char *fmt, ...)
{
	va_list args;

	in_hand.cause = cause;
	va_start(args, fmt);
	vsnprintf(in_hand.text, sizeof(in_hand.text), fmt, args);
	va_end(args);
	return rc;
}

const char *refusal_print(const struct ctl_cm_address *a, char text[REFUSAL_ADDRESS_BYTES])
{
	char address[GID_TEXT_BYTES], name[IF_NAMESIZE] = "", port[16] = "";

	gid_text(a->gid, address);
	if (a->ifindex && !if_indextoname(a->ifindex, name))
		snprintf(name, sizeof(name), "%u", a->ifindex);
	if (a->port)
		snprintf(port, sizeof(port), " port %u", ntohs(a->port));
	snprintf(text, REFUSAL_ADDRESS_BYTES, "%s%s%s%s", address, *name ? "%" : "", name, port);
	return text;
}

int refusal_answer(const char *call, int rc)
{
	enum cause cause = in_hand.cause;

	in_hand.cause = CAUSE_NONE;
	if (rc >= 0)
		return 0;
	/* A non-blocking call without a result, or an interrupted one, is no failure. */
	if (rc != -EAGAIN && rc != -EINTR)
		cause_report(cause ? cause : CAUSE_CM_FAILED, 0, "%s: %s%s%s", call,
			     cause ? in_hand.text : "", cause ? ": " : "", strerror(-rc));
	errno = -rc;
	return -1;
}

/* The reasons of a REJ (IBA 12.6.7.2) that happen. */
static const char *rejection(int reason)
{
	switch (reason) {
	case 3:
		return "the other end lacks resources";
	case 4:
		return "the other end gave up waiting";
	case 8:
		return "no program listens there";
	case 9:
		return "the listener is for another kind of QP";
	case 10:
		return "the other end knows a connection of this QP already";
	case 26:
		return "the path MTU is not the other end's";
	case 28:
		return "the program at the other end refused it";
	case 35:
		return "the other end does not take these ECE options";
	default:
		return "see IBA 12.6.7.2";
	}
}

void refusal_report_event(const struct ctl_cm_event *event, const struct ctl_cm_address *remote)
{
	char text[REFUSAL_ADDRESS_BYTES];

	refusal_print(remote, text);
	if (event->kind == CTL_CM_REJECTED)
		cause_report(CAUSE_CM_REJECTED, 0, "%s, reason %d: %s", text, event->status,
			     rejection(event->status));
	else if (event->kind == CTL_CM_UNREACHABLE && event->status > 0)
		cause_report(CAUSE_CM_REJECTED, 0, "%s, status %d of SIDR: %s", text, event->status,
			     event->status == 1 ? "no program listens there"
						: "the program at the other end refused it");
	else if (event->kind == CTL_CM_UNREACHABLE)
		cause_report(CAUSE_CM_UNREACHABLE, 0, "%s", text);
}
