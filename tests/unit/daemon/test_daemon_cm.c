/* What a client of connection management may do to the daemon and to the others: nothing. */
#include "harness.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "ctl/fdmsg.h"

static struct fdmsg ask_with(int sock, const void *request, size_t len, const int *fds,
			     unsigned fd_count)
{
	struct fdmsg m;

	CHECK(!fdmsg_send(sock, request, len, fds, fd_count));
	CHECK(!fdmsg_wait(sock, deadline_in_ms(PATIENCE_MS), &m));
	return m;
}

static struct ctl_cm_reply ask(int sock, const void *request, size_t len)
{
	return ask_with(sock, request, len, NULL, 0).body.cm_reply;
}

static int cm_join(void)
{
	struct ctl_cm_hello hello = {
		.greeting = { .header = { .type = CTL_CM_HELLO, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
	};
	int sock = raw_connect();

	CHECK(!ask_with(sock, &hello, sizeof(hello), NULL, 0).body.welcome.status);
	return sock;
}

/* 0 or an errno. */
static int create_channel(int sock, const int ends[2], uint32_t *number)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_CREATE_CHANNEL } };
	struct ctl_cm_reply r = ask_with(sock, &request, sizeof(request), ends, 2).body.cm_reply;

	*number = r.number;
	return r.status;
}

static uint32_t create_id(int sock, uint32_t channel)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_CREATE_ID },
				      .channel = channel,
				      .value = CTL_CM_TCP };
	struct ctl_cm_reply r = ask(sock, &request, sizeof(request));

	CHECK(!r.status);
	return r.number;
}

static int raise_event(int sock, uint32_t id)
{
	struct ctl_cm_raise request = { .header = { .type = CTL_CM_RAISE },
					.id = id,
					.kind = CTL_CM_ADDR_RESOLVED };

	return ask(sock, &request, sizeof(request)).status;
}

static uint32_t make_id(int sock)
{
	uint32_t channel;
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	CHECK(!create_channel(sock, ends, &channel));
	close(ends[0]);
	close(ends[1]);
	return create_id(sock, channel);
}

/* More channels are no way to have more events kept. */
static void test_events_of_all_channels_are_bounded(void **state)
{
	struct ctl_client *bystander = join();
	int sock = cm_join();
	uint32_t ids[4];
	unsigned kept = 0;
	int rc = 0;

	for (unsigned i = 0; i < 4; i++)
		ids[i] = make_id(sock);
	while (!rc && kept < 200000) {
		rc = raise_event(sock, ids[kept % 4]);
		kept += !rc;
	}
	CHECK(rc == ENOSPC && kept <= 65536);
	CHECK(raise_event(sock, ids[3]) == ENOSPC);
	close(sock);
	ctl_close(bystander);
}

/*
 * The other end of a channel's descriptor is the program's, too: were the daemon to read until
 * nothing is left, a program that writes faster would keep it there.
 */
static void test_a_bell_is_read_once(void **state)
{
	struct ctl_client *bystander = join();
	struct ctl_cm_ask get = { .header = { .type = CTL_CM_GET_EVENT } };
	int ends[2], sock = cm_join();
	static char bytes[8192];
	uint32_t id;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	CHECK(!create_channel(sock, ends, &get.channel));
	id = create_id(sock, get.channel);
	CHECK(send(ends[0], bytes, 4096, 0) == 4096);
	CHECK(!raise_event(sock, id));
	CHECK(!ask_with(sock, &get, sizeof(get), NULL, 0).body.cm_event.answer);
	CHECK(recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT) >= 4000);
	close(ends[0]);
	close(ends[1]);
	close(sock);
	ctl_close(bystander);
}

/* Channels have descriptors in the daemon: they end before the daemon has none for others. */
static void test_descriptors_are_left_for_others(void **state)
{
	struct rlimit few = { 400, 400 };
	struct ctl_client *first, *second;
	unsigned count = 0;
	uint32_t channel;
	int ends[2], sock, rc = 0;

	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	first = join(); /* and starts the daemon */
	sock = cm_join();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	while (!rc && count < 400) {
		rc = create_channel(sock, ends, &channel);
		count += !rc;
	}
	CHECK(rc == EMFILE && count <= 50);
	second = join();
	ctl_close(second);
	ctl_close(first);
	close(ends[0]);
	close(ends[1]);
	close(sock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_events_of_all_channels_are_bounded,
						harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_a_bell_is_read_once, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_descriptors_are_left_for_others, harness_setup,
						harness_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
