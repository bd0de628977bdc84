/*
 * Heap - another process's adopted pages (object/adopt.h) as they are mapped here.
 *
 * In:  offsets found in that process's keys, and how often its keys are used.
 * Out: addresses to copy to and from; requests to adopt what is used often.
 *
 * Part of a link, and used by whoever holds a reference to that; no locks. The file cannot shrink,
 * and offsets are checked against its size, so whatever the other process says, an address given
 * here can be accessed; a hole reads as zeroes. The mappings stay until the link goes, and are not
 * there in the child of a fork.
 */
#ifndef LOCAL_HEAP_H
#define LOCAL_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct link;

#define HEAP_WINDOW_BYTES (256ull << 20) /* mapped at a time */
#define HEAP_WINDOWS	  256		 /* what lies behind is not used */
#define HEAP_WANTS	  64

struct heap {
	int fd; /* -1: not used */
	uint64_t bytes;
	char *_Atomic windows[HEAP_WINDOWS]; /* NULL: not yet; MAP_FAILED: cannot be */
	/* key << 32 | how worthwhile its adoption is by now; keys displace each other */
	_Atomic uint64_t wants[HEAP_WANTS];
};

/* Takes over fd (may be -1). */
void heap_init(struct heap *heap, int fd);
void heap_fini(struct heap *heap);

/*
 * The address of [offset, offset + *bytes), or NULL: it cannot be had. *bytes becomes less if that
 * reaches into another window.
 */
char *heap_map(struct heap *heap, uint64_t offset, size_t *bytes);

/*
 * So many bytes were moved by other means, to or from the region of this length. Asks the owner to
 * adopt it when that pays: after 16 operations or when four times its length was moved, and again
 * much later if it did not. The caller holds no tx_lock.
 */
void heap_want(struct link *link, uint32_t key, uint64_t length, size_t bytes);

#endif
