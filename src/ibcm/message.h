/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Message - the messages of connection management (IBA 12.6) as fields.
 *
 * All types share one struct; a field that a type does not have is 0. Fields are in host order.
 * `local` and `remote` are the sender's: local_id is the sender's communication ID.
 */
#ifndef IBCM_MESSAGE_H
#define IBCM_MESSAGE_H

#include <stdint.h>

#define IBCM_GID_BYTES	   16
#define IBCM_PRIVATE_BYTES 224 /* of RTU and DREP, which have the most */
#define IBCM_INFO_BYTES	   72  /* additional information of REJ and SIDR_REP */

/* The attribute ID of the MAD. */
enum ibcm_type {
	IBCM_REQ = 0x10,
	IBCM_MRA = 0x11,
	IBCM_REJ = 0x12,
	IBCM_REP = 0x13,
	IBCM_RTU = 0x14,
	IBCM_DREQ = 0x15,
	IBCM_DREP = 0x16,
	IBCM_SIDR_REQ = 0x17,
	IBCM_SIDR_REP = 0x18,
	IBCM_LAP = 0x19,
	IBCM_APR = 0x1a,
};

/* The message that an MRA or REJ answers. */
enum ibcm_subject {
	IBCM_ABOUT_REQ = 0,
	IBCM_ABOUT_REP = 1,
	IBCM_ABOUT_OTHER = 2,
};

/* Reasons of a REJ (IBA table 108); those that Verbatim uses. */
enum ibcm_reason {
	IBCM_REASON_TIMEOUT = 4,
	IBCM_REASON_UNSUPPORTED = 5,
	IBCM_REASON_INVALID_ID = 6,
	IBCM_REASON_INVALID_INSTANCE = 7,
	IBCM_REASON_NO_LISTENER = 8, /* invalid service ID */
	IBCM_REASON_BAD_TRANSPORT = 9,
	IBCM_REASON_STALE = 10,
	IBCM_REASON_CONSUMER = 28,
};

/* Status of a SIDR_REP (IBA table 120). */
enum ibcm_sidr_status {
	IBCM_SIDR_OK = 0,
	IBCM_SIDR_NO_LISTENER = 1,
	IBCM_SIDR_REJECTED = 2,
};

/* Status of an APR (IBA 12.8.2). */
enum ibcm_alternate_status {
	IBCM_ALTERNATE_INVALID_ID = 1,
	IBCM_ALTERNATE_UNSUPPORTED = 2,
};

enum ibcm_transport {
	IBCM_RC = 0,
	IBCM_UC = 1,
	IBCM_RD = 2,
	IBCM_EXTENDED = 3,
};

/* Of transport IBCM_EXTENDED. */
enum ibcm_extended_transport {
	IBCM_EXTENDED_XRC = 1,
};

struct ibcm_message {
	enum ibcm_type type;
	uint64_t transaction;
	uint32_t local_id;  /* in SIDR messages the request ID, which both ends use */
	uint32_t remote_id; /* 0 in a REQ */

	/* REQ, REP, SIDR_REQ, SIDR_REP */
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qpn, psn, qkey;
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, rnr_retry_count, has_srq;
	uint32_t ece_vendor, ece_options;
	uint32_t eecn; /* REP of an XRC target: the number of its QP, while qpn is 0 */

	/* REQ */
	uint8_t retry_count, transport, extended_transport, path_mtu, ack_timeout, max_tries;
	uint8_t remote_timeout, local_timeout; /* exponents of 4.096 us: CM response time-outs */
	uint8_t local_gid[IBCM_GID_BYTES], remote_gid[IBCM_GID_BYTES];
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;

	/* MRA, REJ, SIDR_REP */
	uint8_t subject;	 /* enum ibcm_subject */
	uint8_t service_timeout; /* MRA: exponent */
	uint16_t reason;	 /* REJ: enum ibcm_reason; SIDR_REP, APR: the status */
	uint8_t info_bytes;
	uint8_t info[IBCM_INFO_BYTES];

	/* In a decoded message private_bytes is that of its type. */
	uint16_t private_bytes;
	uint8_t private_data[IBCM_PRIVATE_BYTES];
};

#endif
