/*
 * Fork free - free() for what the handlers of a fork let go in the child.
 *
 * In:  blocks of malloc, at least a pointer long.
 * Out: nothing.
 *
 * Between fork and its return the child neither allocates nor frees: another thread of the parent may
 * have been inside the allocator. glibc's own is prepared for that; those of sanitizers and of programs
 * are not, and the child would wait for ever for a lock that nobody holds any more. So what is let go in
 * these handlers is kept, and freed when the child begins anew.
 *
 * The child has one thread then, so nothing here needs a lock. Never blocks.
 */
#ifndef BASE_FORK_FREE_H
#define BASE_FORK_FREE_H

/* First and last in the child's handler. */
void fork_free_begin(void);
void fork_free_end(void);

/* Frees the block; in a handler of the child, keeps it. */
void fork_free(void *block);

/* Frees what was kept. Not from a handler; by one thread at a time. */
void fork_free_kept(void);

#endif
