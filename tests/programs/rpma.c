// SPDX-License-Identifier: BSD-2-Clause
/*
 * What programs do with librpma: the server shows a region, whose descriptor is its private data;
 * the client writes it in pieces, flushes, reads it back, writes a word atomically, and both
 * exchange messages.
 *
 *     rpma server|client ADDRESS PORT
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BYTES = 8 << 20,
	PIECE = 100000, // the last is shorter
	MESSAGE = 64,
	MESSAGES = 100,
	WORD_AT = 4096,
};

#define ATOMIC_WRITE ((enum ibv_wc_opcode)9) // IBV_WC_ATOMIC_WRITE of newer headers

static const char word[8] = "a word.";
static struct rpma_peer *peer;
static struct rpma_conn *conn;
static unsigned char *region, *message; // of this end
static struct rpma_mr_local *region_mr, *message_mr;
static struct rpma_cq *cq, *receive_cq; // a message may come before the completion of one sent

static void check(int result, const char *what)
{
	if (!result)
		return;
	printf("BAD %s: %s\n", what, rpma_err_2str(result));
	exit(1);
}

static unsigned char pattern(size_t i)
{
	return i * 7 + (i >> 8) * 3 + (i >> 16) * 5 + 1;
}

static void check_pattern(const char *what)
{
	for (size_t i = 0; i < BYTES; i++) {
		if (region[i] != pattern(i)) {
			printf("BAD %s: byte %zu is %u, not %u\n", what, i, region[i], pattern(i));
			exit(1);
		}
	}
	printf("ok %s\n", what);
}

static void set_up(const char *address, enum rpma_util_ibv_context_type type, int usage)
{
	struct ibv_context *context;

	check(rpma_utils_get_ibv_context(address, type, &context), "rpma_utils_get_ibv_context");
	check(rpma_peer_new(context, &peer), "rpma_peer_new");
	region = aligned_alloc(4096, BYTES);
	message = aligned_alloc(4096, 4096);
	check(!region || !message ? RPMA_E_NOMEM : 0, "aligned_alloc");
	memset(region, 0, BYTES);
	check(rpma_mr_reg(peer, region, BYTES, usage, &region_mr), "rpma_mr_reg of the region");
	check(rpma_mr_reg(peer, message, 4096, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV,
			  &message_mr),
	      "rpma_mr_reg of the messages");
}

// Waits for one completion, which has to be of this operation, and good.
static void complete(struct rpma_cq *from, enum ibv_wc_opcode opcode, const char *what)
{
	struct ibv_wc wc;
	int result = rpma_cq_get_wc(from, 1, &wc, NULL);

	while (result == RPMA_E_NO_COMPLETION) {
		check(rpma_cq_wait(from), "rpma_cq_wait");
		result = rpma_cq_get_wc(from, 1, &wc, NULL);
	}
	check(result, what);
	// librpma 1.2 writes a word by a WRITE
	if (wc.status != IBV_WC_SUCCESS ||
	    (wc.opcode != opcode && !(opcode == ATOMIC_WRITE && wc.opcode == IBV_WC_RDMA_WRITE))) {
		printf("BAD %s: %s, opcode %d, not %d\n", what, ibv_wc_status_str(wc.status),
		       wc.opcode, opcode);
		exit(1);
	}
}

static void expect_event(enum rpma_conn_event wanted)
{
	enum rpma_conn_event event;

	check(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
	if (event != wanted) {
		printf("BAD event: %s, not %s\n", rpma_utils_conn_event_2str(event),
		       rpma_utils_conn_event_2str(wanted));
		exit(1);
	}
}

static struct rpma_conn_cfg *configuration(void)
{
	struct rpma_conn_cfg *cfg;

	check(rpma_conn_cfg_new(&cfg), "rpma_conn_cfg_new");
	check(rpma_conn_cfg_set_rcq_size(cfg, 10), "rpma_conn_cfg_set_rcq_size");
	return cfg;
}

static void get_cqs(void)
{
	check(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
	check(rpma_conn_get_rcq(conn, &receive_cq), "rpma_conn_get_rcq");
}

// Its receive is posted already.
static void receive(int number)
{
	complete(receive_cq, IBV_WC_RECV, "rpma_recv");
	for (int i = 0; i < MESSAGE; i++) {
		if (message[i] != (unsigned char)(number + i)) {
			printf("BAD message %d: byte %d is %u\n", number, i, message[i]);
			exit(1);
		}
	}
}

static void send_message(int number)
{
	for (int i = 0; i < MESSAGE; i++)
		message[MESSAGE + i] = number + i;
	check(rpma_send(conn, message_mr, MESSAGE, MESSAGE, RPMA_F_COMPLETION_ALWAYS, NULL),
	      "rpma_send");
	complete(cq, IBV_WC_SEND, "rpma_send");
}

static void post_receive(void)
{
	check(rpma_recv(conn, message_mr, 0, MESSAGE, NULL), "rpma_recv");
}

static void serve(const char *address, const char *port)
{
	struct rpma_ep *ep;
	struct rpma_conn_cfg *cfg = configuration();
	struct rpma_conn_req *request;
	char descriptor[128];
	struct rpma_conn_private_data data = { .ptr = descriptor };
	size_t size;

	set_up(address, RPMA_UTIL_IBV_CONTEXT_LOCAL,
	       RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
		       RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	check(rpma_mr_get_descriptor_size(region_mr, &size), "rpma_mr_get_descriptor_size");
	check(size > sizeof(descriptor) ? RPMA_E_NOMEM : 0, "the descriptor");
	check(rpma_mr_get_descriptor(region_mr, descriptor), "rpma_mr_get_descriptor");
	data.len = size;
	check(rpma_ep_listen(peer, address, port, &ep), "rpma_ep_listen");
	check(rpma_ep_next_conn_req(ep, cfg, &request), "rpma_ep_next_conn_req");
	check(rpma_conn_req_recv(request, message_mr, 0, MESSAGE, NULL), "rpma_conn_req_recv");
	check(rpma_conn_req_connect(&request, &data, &conn), "rpma_conn_req_connect");
	check(rpma_conn_cfg_delete(&cfg), "rpma_conn_cfg_delete");
	expect_event(RPMA_CONN_ESTABLISHED);
	get_cqs();
	for (int number = 0; number < MESSAGES; number++) {
		receive(number);
		post_receive();
		send_message(number + 1);
	}
	receive(MESSAGES); // the client has written all
	if (memcmp(region + WORD_AT, word, sizeof(word)) != 0)
		check(RPMA_E_UNKNOWN, "the word that was written atomically");
	for (size_t i = WORD_AT; i < WORD_AT + sizeof(word); i++)
		region[i] = pattern(i);
	check_pattern("what was written");
	send_message(0);
	expect_event(RPMA_CONN_CLOSED);
	check(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
	check(rpma_conn_delete(&conn), "rpma_conn_delete");
	check(rpma_ep_shutdown(&ep), "rpma_ep_shutdown");
}

static struct rpma_mr_remote *connect_to(const char *address, const char *port)
{
	struct rpma_conn_cfg *cfg = configuration();
	struct rpma_conn_req *request;
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *remote;
	size_t size;

	check(rpma_conn_req_new(peer, address, port, cfg, &request), "rpma_conn_req_new");
	check(rpma_conn_req_recv(request, message_mr, 0, MESSAGE, NULL), "rpma_conn_req_recv");
	check(rpma_conn_req_connect(&request, NULL, &conn), "rpma_conn_req_connect");
	check(rpma_conn_cfg_delete(&cfg), "rpma_conn_cfg_delete");
	expect_event(RPMA_CONN_ESTABLISHED);
	check(rpma_conn_get_private_data(conn, &data), "rpma_conn_get_private_data");
	// rdma_cm may give more bytes than were sent, the size of the descriptor is known.
	check(rpma_mr_get_descriptor_size(region_mr, &size), "rpma_mr_get_descriptor_size");
	check(data.len < size ? RPMA_E_INVAL : 0, "the private data");
	check(rpma_mr_remote_from_descriptor(data.ptr, size, &remote),
	      "rpma_mr_remote_from_descriptor");
	check(rpma_mr_remote_get_size(remote, &size), "rpma_mr_remote_get_size");
	check(size != BYTES ? RPMA_E_INVAL : 0, "the size of the region");
	return remote;
}

static void write_and_read(struct rpma_mr_remote *remote)
{
	for (size_t i = 0; i < BYTES; i++)
		region[i] = pattern(i);
	for (size_t at = 0; at < BYTES; at += PIECE) {
		size_t length = at + PIECE > BYTES ? BYTES - at : PIECE;

		check(rpma_write(conn, remote, at, region_mr, at, length, RPMA_F_COMPLETION_ALWAYS,
				 NULL),
		      "rpma_write");
		complete(cq, IBV_WC_RDMA_WRITE, "rpma_write");
	}
	// librpma 1.2 flushes by a READ of 8 bytes.
	check(rpma_flush(conn, remote, 0, BYTES, RPMA_FLUSH_TYPE_VISIBILITY,
			 RPMA_F_COMPLETION_ALWAYS, NULL),
	      "rpma_flush");
	complete(cq, IBV_WC_RDMA_READ, "rpma_flush");
	memset(region, 0, BYTES);
	for (size_t at = 0; at < BYTES; at += PIECE) {
		size_t length = at + PIECE > BYTES ? BYTES - at : PIECE;

		check(rpma_read(conn, region_mr, at, remote, at, length, RPMA_F_COMPLETION_ALWAYS,
				NULL),
		      "rpma_read");
		complete(cq, IBV_WC_RDMA_READ, "rpma_read");
	}
	check_pattern("what was read back");
	check(rpma_atomic_write(conn, remote, WORD_AT, word, RPMA_F_COMPLETION_ALWAYS, NULL),
	      "rpma_atomic_write");
	complete(cq, ATOMIC_WRITE, "rpma_atomic_write");
}

static void ask(const char *address, const char *port)
{
	struct rpma_mr_remote *remote;

	set_up(address, RPMA_UTIL_IBV_CONTEXT_REMOTE,
	       RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	remote = connect_to(address, port);
	get_cqs();
	write_and_read(remote);
	for (int number = 0; number < MESSAGES; number++) {
		send_message(number);
		receive(number + 1);
		post_receive();
	}
	send_message(MESSAGES);
	receive(0);
	check(rpma_mr_remote_delete(&remote), "rpma_mr_remote_delete");
	check(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
	expect_event(RPMA_CONN_CLOSED);
	check(rpma_conn_delete(&conn), "rpma_conn_delete");
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	if (strcmp(argv[1], "server") == 0)
		serve(argv[2], argv[3]);
	else
		ask(argv[2], argv[3]);
	check(rpma_mr_dereg(&region_mr), "rpma_mr_dereg");
	check(rpma_mr_dereg(&message_mr), "rpma_mr_dereg");
	check(rpma_peer_delete(&peer), "rpma_peer_delete");
	printf("ok %d messages\n", MESSAGES);
	return 0;
}
