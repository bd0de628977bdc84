#include "daemon/cm_restore.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cm.h"
#include "daemon/cm_connection.h"
#include "daemon/cm_save.h"

/* Of the events, which are read in no order. */
struct found {
	uint32_t slot;
	struct cm_record_event record;
};

struct reading {
	struct cm_client *cc;
	struct found *events;
	unsigned count, room;
};

/* Behind what was in its queue; and not before all is read, since it needs a record. */
static void tell_removals(struct cm_client *cc)
{
	struct ctl_cm_event body = { .kind = CTL_CM_DEVICE_REMOVAL };

	list_for_each_safe(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		if (id->is_lost)
			cm_channel_post(id, &body, 0);
		id->is_lost = false;
	}
}

/* False: its port is somebody else's by now. */
static bool restore_port(struct cm_id *id, const struct cm_record_id *r)
{
	id->binding.local = r->local;
	if (!r->is_bound)
		return true;
	if (cm_id_bind_again(id, r->bind_flags, &r->local))
		return false;
	return !r->is_listening || !cm_id_listen(id, r->backlog, r->bind_flags);
}

static bool keep_id(struct cm_client *cc, uint32_t slot, const struct cm_record_id *r)
{
	struct cm_channel *ch = cm_find_channel(cc->client, r->channel);
	struct cm_id *id;

	if (!ch || cc->id_count >= CM_IDS_PER_CLIENT || !r->number ||
	    !cm_is_kind(r->space, (enum ctl_cm_qp_type)r->qp_type) ||
	    cm_id_create(cc, ch, (uint16_t)r->space, (enum ctl_cm_qp_type)r->qp_type, r->number, &id))
		return false;
	id->slot = slot;
	id->made_seq = r->made_seq;
	id->raised = r->raised;
	id->had_connection = r->had_connection != 0;
	id->is_lost = !restore_port(id, r) || (r->has_connection && !cm_connection_restore(id, r));
	return true;
}

static bool keep_event(struct reading *reading, uint32_t slot, const struct cm_record_event *r)
{
	if (reading->count == reading->room) {
		unsigned room = reading->room ? 2 * reading->room : 64;
		struct found *larger = realloc(reading->events, room * sizeof(*larger));

		if (!larger)
			return false;
		reading->events = larger;
		reading->room = room;
	}
	reading->events[reading->count++] = (struct found){ .slot = slot, .record = *r };
	return true;
}

static bool keep(void *arg, uint32_t slot, const void *record)
{
	struct reading *reading = arg;
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	if (kind == CM_RECORD_ID)
		return keep_id(reading->cc, slot, record);
	return kind == CM_RECORD_EVENT && keep_event(reading, slot, record);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct found *)a)->record.order, y = ((const struct found *)b)->record.order;

	return x < y ? -1 : x > y;
}

/* Also a child whose request was not fetched. */
static struct cm_id *find(const struct cm_client *cc, uint32_t number)
{
	struct numbered *n = numbers_find(&cc->cm->ids, number);
	struct cm_id *id = n ? container_of(n, struct cm_id, numbered) : NULL;

	return id && id->owner == cc ? id : NULL;
}

/* False: its step was not completed, or the program has it, or there is nobody whom it is about. */
static bool restore_event(struct cm_client *cc, const struct found *f, uint32_t answered)
{
	const struct cm_record_event *r = &f->record;
	struct cm_id *id = find(cc, r->id);
	struct cm_id *listener = NULL;
	struct cm_event again = {
		.body = r->body,
		.slot = f->slot,
		.made_seq = r->made_seq,
		.index = r->index,
		.order = r->order,
	};

	if (!id || r->index > id->raised || r->body.kind >= CTL_CM_EVENT_KINDS ||
	    (r->given_seq && r->given_seq == answered))
		return false;
	if (r->body.kind == CTL_CM_CONNECT_REQUEST) {
		listener = find(cc, r->body.listener);
		/* The program does not know of the child, either. */
		if (!listener || listener == id || id->listener) {
			cm_id_destroy(id);
			return false;
		}
	}
	if (cm_channel_post_again(id, &again))
		return false;
	if (listener)
		cm_id_make_child(id, listener);
	if (cc->order < r->order)
		cc->order = r->order;
	return true;
}

void cm_restore(struct cm_client *cc, uint32_t answered)
{
	struct reading reading = { .cc = cc };

	cm_store_read(&cc->store, keep, &reading);
	if (reading.count)
		qsort(reading.events, reading.count, sizeof(*reading.events), compare);
	for (unsigned i = 0; i < reading.count; i++) {
		if (!restore_event(cc, &reading.events[i], answered))
			cm_store_drop(&cc->store, &reading.events[i].slot);
	}
	free(reading.events);
	tell_removals(cc);
}
