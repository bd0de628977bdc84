/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worker - one process of the run: its verbs objects, and its connections to the others.
 *
 * setup.c makes them, traffic.c posts, oracle.c judges completions, mishap.c forks and handles
 * signals, worker.c has the main loop.
 *
 * Locks: a connection's lock guards it and is taken inside sends_lock and receives_lock, which
 * serialise polling of one CQ each, so that the order of completions can be judged. Threads post to
 * different QPs, and poll, at the same time.
 */
#ifndef STRESS_WORKER_H
#define STRESS_WORKER_H

#include <pthread.h>

#include "board.h"
#include "plan.h"

#define DEPTH	       32u /* of an RC send queue */
#define RECEIVES       4u  /* posted per RC QP, and per QP in an SRQ */
#define RING_BYTES     (5u << 18)
#define DATAGRAM_DEPTH 32u
#define DATAGRAM_BYTES 1024u
#define UC_BYTES       32768u
#define INLINE_BYTES   64u
#define UC_DEPTH       8u
#define CANARY	       0xC5

/* wr_id: what, which connection, which number. */
enum ticket { RC_SEND = 1, RC_RECEIVE, SRQ_RECEIVE, UD_SEND, UD_RECEIVE, UC_SEND, UC_RECEIVE };

static inline uint64_t ticket(enum ticket what, unsigned int which, uint32_t number)
{
	return (uint64_t)what << 56 | (uint64_t)which << 48 | number;
}

/* A posted request that has not been retired. */
struct pending {
	uint32_t number; /* low bits of the wr_id */
	bool signalled;
	bool tell; /* the SEND after a WRITE */
	struct step step;
	uint32_t at;	 /* its bytes in the ring */
	uint32_t end;	 /* what the ring's head becomes when it is retired */
	uint64_t before; /* *_OWN: the value that must come back; SWAP_SHARED: the compared one */
};

/* To one other process. */
struct link {
	unsigned int peer;
	pthread_mutex_t lock;
	struct ibv_qp *qp;
	/* sending */
	uint32_t next;	 /* step */
	uint32_t number; /* requests posted */
	uint32_t unsignalled;
	uint32_t writes;
	struct pending pending[DEPTH];
	uint32_t first, count;
	char *ring;
	uint32_t ring_head, ring_tail; /* head: oldest byte in use; wraps at RING_BYTES */
	uint64_t own_sum, own_word;    /* of ADD_OWN, SWAP_OWN: their values when all is done */
	uint64_t shared_seen;
	uint64_t added, swapped;
	/* receiving */
	uint32_t expected; /* step that the next receive is of */
	uint32_t seen_writes;
	uint32_t receive_first, receive_count; /* own RQ: numbers in order */
	/* the end of it */
	bool failed;   /* a send completed with error */
	bool has_late; /* requests were posted when the peer was dead, perhaps */
	uint32_t late; /* the number of the first of these */
	bool last_wqe;
	bool cut_off; /* the receive of an unfinished message was flushed */
	bool settled;
};

/* UC to one neighbour: nothing is guaranteed but whole messages in order. */
struct uc {
	struct ibv_qp *qp;
	unsigned int peer;
	uint32_t sent, completed, last_seen;
	char *out;
};

struct worker {
	struct board *board;
	const struct settings *settings;
	struct seat *seat;
	unsigned int self;
	bool by_events, use_srq;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sends, *receives;
	struct ibv_srq *srq;
	pthread_mutex_t sends_lock, receives_lock;
	struct ibv_mr *local, *target, *source, *words;
	char *memory;  /* of `local`: rings, receive buffers, datagrams */
	char *buffers; /* RC receive buffers, SEND_BYTES_MAX each */
	bool *srq_posted;
	struct link link[PROCS_MAX]; /* [self] is unused */
	struct uc uc[2];
	char *uc_buffers;
	pthread_mutex_t ud_lock;
	struct ibv_qp *ud;
	struct ibv_ah *ah[PROCS_MAX];
	uint32_t ud_sent, ud_completed;
	char *ud_out, *ud_buffers;
	uint8_t *ud_seen[PROCS_MAX]; /* one byte for each number */
	_Atomic uint64_t bytes, completions, lost;
};

/* Ends the process and the run. */
void worker_fail(const struct worker *worker, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
#define CHECK(worker, condition, ...)                                                              \
	do {                                                                                       \
		if (!(condition))                                                                  \
			worker_fail(worker, __VA_ARGS__);                                          \
	} while (0)

void worker_run(struct board *board, unsigned int self) __attribute__((noreturn));

/* The peer is dead, according to the board. */
static inline bool link_is_dead(const struct worker *worker, const struct link *link)
{
	return atomic_load(&worker->board->killed) == (int)link->peer + 1;
}

/* setup.c */
void setup_objects(struct worker *worker);
void setup_connect(struct worker *worker);
void setup_destroy(struct worker *worker);

/* traffic.c. traffic_post: how many requests it posted. */
unsigned int traffic_post(struct worker *worker, uint64_t *random);
bool traffic_is_posted(struct worker *worker); /* nothing of the plan is left to post */
bool traffic_is_done(struct worker *worker);   /* UC and UD have completed */
void traffic_receive(struct worker *worker, struct link *link); /* to the link's own RQ */
void traffic_receive_srq(struct worker *worker, uint32_t index);
void traffic_receive_uc(struct worker *worker, unsigned int which, uint32_t index);
void traffic_receive_ud(struct worker *worker, uint32_t index);
/* Where those receives put their data. */
char *traffic_buffer(struct worker *worker, uint32_t index);
char *traffic_uc_buffer(struct worker *worker, unsigned int which, uint32_t index);
char *traffic_ud_buffer(struct worker *worker, uint32_t index);

/* Header of datagrams and UC messages. */
struct label {
	uint32_t magic, from, number, size;
	uint64_t key;
};
#define LABEL_MAGIC 0x76657262

/* Payload of the SEND after a WRITE. */
struct tell {
	uint64_t key;
	uint32_t step, size, write, zero;
};

/* The words that atomics work on, at each process. */
enum { WORD_ADD, WORD_SWAP, WORDS };
#define WORDS_SHARED PROCS_MAX
static inline uint64_t word_offset(unsigned int whose, unsigned int which)
{
	return 8 * (whose * WORDS + which);
}

/* oracle.c */
unsigned int oracle_poll_sends(struct worker *worker);
unsigned int oracle_poll_receives(struct worker *worker);
void oracle_poll_async(struct worker *worker);
bool oracle_link_is_done(struct worker *worker, struct link *link);

/* mishap.c: around the traffic, and between two turns of a thread. */
void mishap_begin(struct worker *worker);
void mishap_turn(struct worker *worker);
void mishap_end(struct worker *worker);

uint64_t now_ms(void);

#endif
