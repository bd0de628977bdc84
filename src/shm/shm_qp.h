/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shm QP - a QP's state on this path: of its requester, responder and completer.
 *
 * All of it is guarded by qp->lock, except the two list nodes (link->wait_lock).
 */
#ifndef SHM_SHM_QP_H
#define SHM_SHM_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "shm/link.h"
#include "shm/record.h"
#include "execute/local.h"
#include "object/qp.h"

enum requester_state {
	REQUESTER_READY,
	REQUESTER_RNR_WAIT,   /* until deadline_ns, then from the oldest message on again */
	REQUESTER_RETRY_WAIT, /* likewise */
	/* until deadline_ns, then the oldest message fails: its peer is gone */
	REQUESTER_LOSS_WAIT,
	/* until deadline_ns, then tries again to end a key */
	REQUESTER_REVOKE_WAIT,
	REQUESTER_FULL_WAIT,  /* UD: for room in a ring, until deadline_ns; then it is dropped */
	REQUESTER_WIRE_WAIT,  /* UD: for room on the wire, until deadline_ns; then another try */
	REQUESTER_BATCH_WAIT, /* UD: for more datagrams, until deadline_ns (shm/nagle.h) */
	/* for verbatimd's answer about the destination's process, until deadline_ns */
	REQUESTER_PEER_WAIT,
};

struct response {
	uint8_t kind; /* enum operation of the request */
	uint32_t msn; /* with its attempt */
	uint32_t rkey;
	uint32_t pd; /* number of the PD for the request's check */
	uint64_t remote_addr;
	uint32_t total, done;
	uint64_t value; /* of an atomic: the original value */
};

struct shm_qp {
	struct qp *qp;
	/* RC, UC: to the connected process, with a reference; or NULL: unreachable */
	struct link *link;
	struct list blocked_node, answering_node;
	bool is_answering;	 /* in link->answering; guarded by link->wait_lock */
	struct link *blocked_on; /* with a reference; guarded by its wait_lock */
	bool for_room;		 /* in its list `blocked`; else in `turned` */
	bool gated;		 /* shm_rnic_connect: nothing is sent yet */

	/* requester */
	uint8_t state;	/* enum requester_state; set by timer.c, backoff.c and retry.c */
	bool started;	/* next_msn was set from sq_psn */
	bool sought;	/* the request at sq.issue has waited for verbatimd's answer in vain */
	bool published; /* records whose reader is not woken yet (link_notify) */
	bool stored;	/* a WRITE since the last READ, to memory that is mapped here (READ-1) */
	struct local_failure failure;
	/* why the peer does not answer: in REQUESTER_RETRY_WAIT and LOSS_WAIT */
	enum cause silence;
	uint32_t next_msn;
	/* counts how often the requester went back; NAKs of earlier attempts are void */
	uint8_t attempt;
	uint32_t epoch;	   /* of the in_flight entries that count */
	uint64_t last_end; /* UC: position after the last message */
	uint32_t unacked;  /* outstanding messages, READs and atomics included */
	uint32_t reads;	   /* of these: READs and atomics */
	uint32_t queued;   /* of these: those of ROUTE_QUEUED */
	uint32_t by_ring;  /* so many long messages go through the ring (shm/rendezvous.h) */
	uint32_t pause;	   /* by_ring after the last refusal; 0: a message was fetched since */
	uint8_t rnr_left, retry_left;
	uint8_t backoff; /* doublings of the wait for a silent peer, if the QP has no time-out */
	/* of BIND_MW or LOCAL_INV at sq.issue, in vain: a thread still copies by the key */
	uint32_t looks;

	/* UD: posts since a thread's last poll, whose number it is */
	uint32_t posts, posts_of;
	bool streams; /* UD: the last batch that waited was filled before any poll or timer */
	bool filled;  /* UD: one of these posts filled a batch that waited */

	/* timer, see timer.h */
	struct list timer_node;
	bool timer_armed; /* written under the timers' lock, as the next three are */
	bool timer_due;	  /* a thread that found it due waits for the QP's lock */
	bool seeks;	  /* the timer is armed for REQUESTER_PEER_WAIT */
	bool answered;	  /* verbatimd has answered a question since, so the timer is due */
	uint64_t deadline_ns;
	uint64_t seek_end_ns; /* the end of an interrupted wait; 0: the next wait is a new one */
	uint32_t answers;     /* number of verbatimd's answers when the destination was looked up */

	/* responder */
	bool expecting; /* expected_msn was set from rq_psn */
	bool nak_sent;	/* a NAK was sent: other records of its attempt are dropped */
	uint8_t nak_sent_attempt;
	bool in_message;      /* FIRST was accepted, LAST has not come */
	bool dropping;	      /* UC: drops the rest of a refused message */
	uint8_t message_kind; /* enum operation of its FIRST */
	uint32_t expected_msn;
	uint32_t received; /* bytes of the current message */
	uint32_t message_total;
	/* the key that a dropped SEND_WITH_INV has revoked (mw_invalidate_once); 0: none */
	uint32_t revoked;
	struct nak_pending nak;
	struct held_nak held; /* of `nak`; guarded by link->wait_lock */
	/* takes `nak` if the QP leaves; NULL until the next connection */
	struct orphan_nak *orphan;
	/*
	 * From head to tail: to be sent, at most response_limit (max_dest_rd_atomic, which SQD may
	 * have lowered since). A ring
	 * (execute/depth.h), made at RTR; NULL for UC, UD and XRC_SEND, whose limit is 0.
	 */
	uint32_t response_head, response_tail, response_limit, response_slots;
	struct response *responses;
};

extern const struct qp_path shm_path;
extern const struct qp_path shm_rnic_path; /* shm/shm.h */

/* NULL: the QP uses another path, or none yet. */
static inline struct shm_qp *shm_of(struct qp *qp)
{
	return qp->path == &shm_path || qp->path == &shm_rnic_path ? qp->path_data : NULL;
}

/* Functions of the adapter. Set once, before the first QP. */
struct shm_env {
	/*
	 * A link to the process with this slot, with a reference; NULL: there is no such process.
	 * NULL with *asked set: the adapter has asked verbatimd, and calls shm_retry_on_peers at
	 * its answer. Does not block.
	 */
	struct link *(*find_link)(uint32_t slot, bool *asked);
	/*
	 * The slots of a multicast group's members, at most `max`. *asked: the list may be out of
	 * date, and the adapter has asked verbatimd, as above. Does not block.
	 */
	int (*group_members)(const union ibv_gid *gid, uint32_t *slots, int max, bool *asked);
	/* Calls visit for each QP of this process that is attached to the group. */
	void (*group_visit)(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg),
			    void *arg);
	/* Whether the connected QP's peer is where shared memory reaches. */
	bool (*peer_is_local)(const struct qp *qp);
	/*
	 * Sends datagrams of the QP, whose lock is held, to another host or a group: that at
	 * sq.issue, and up to `most` from there on. 0: *sent of them, at least one, were sent, or
	 * are lost. Else none was: -EAGAIN: try again a little later; -EFAULT: *cause is set;
	 * -EINPROGRESS: the port of the address is not open, and the adapter has asked verbatimd,
	 * as above. NULL: there is no network.
	 */
	int (*datagrams_to_wire)(struct qp *qp, unsigned most, unsigned *sent, enum cause *cause);
	/* Wakes the progress thread, unless another thread polls. */
	void (*kick)(void);
	/* A timer was armed that is due before all others. */
	void (*deadline)(uint64_t ns);
	uint32_t slot;
};

extern struct shm_env shm_env;

/*
 * Bytes of payload that this thread has copied: a measure of time for the adapter, which resets it.
 */
extern _Thread_local uint64_t shm_moved __attribute__((tls_model("initial-exec")));

/* An epoch that no in_flight entry of this process has. */
uint32_t shm_new_epoch(void);

#endif
