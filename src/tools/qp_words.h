/*
 * QP words - the names of what numbers mean in a QP, as users know them.
 *
 * Static text, but for addresses; "?" for what is no such number.
 */
#ifndef TOOLS_QP_WORDS_H
#define TOOLS_QP_WORDS_H

#include <stdint.h>

#define QP_WORDS_GID_ROOM 46

/* enum ibv_qp_type */
const char *qp_words_type(unsigned type);

/* enum ibv_qp_state */
const char *qp_words_state(unsigned state);

/* enum arena_path */
const char *qp_words_path(unsigned path);

/* A GID as an address: IPv4 where it maps one. */
const char *qp_words_gid(const uint8_t gid[16], char text[QP_WORDS_GID_ROOM]);

#endif
