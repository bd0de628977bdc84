// SPDX-License-Identifier: BSD-2-Clause
/*
 * What programs do with MPI: a ring, alltoall, allreduce, put, get and fetch_and_op, every byte
 * compared: those that are named, else all. Says "ok CASE" of each, and when it made its last call.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	FETCHES = 200, // of each rank
};

static int rank, ranks;

// What was wrong has been printed. mpirun passes nothing on once a rank has aborted.
static void give_up(void)
{
	fflush(stdout);
	usleep(300000);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

// Different for each pair of ranks, and each round.
static unsigned char pattern(int from, int to, size_t i, int round)
{
	return from * 31 + to * 17 + i * 7 + (i >> 8) * 3 + round * 101;
}

static void fill(unsigned char *bytes, size_t length, int from, int to, int round)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = pattern(from, to, i, round);
}

static void check(const char *what, const unsigned char *bytes, size_t length, int from, int to,
		  int round)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != pattern(from, to, i, round)) {
			printf("BAD %s: rank %d, of rank %d: byte %zu of %zu is %u, not %u\n", what,
			       rank, from, i, length, bytes[i], pattern(from, to, i, round));
			give_up();
		}
	}
}

static const size_t sizes[] = { 1, 100, 8192, 65536, 1 << 20 };
enum {
	SIZES = sizeof(sizes) / sizeof(sizes[0]),
};

static void ring(void)
{
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

	for (int s = 0; s < SIZES; s++) {
		unsigned char *out = malloc(sizes[s]), *in = calloc(1, sizes[s]);

		for (int round = 0; round < 10; round++) {
			fill(out, sizes[s], rank, next, round);
			MPI_Sendrecv(out, sizes[s], MPI_BYTE, next, 5, in, sizes[s], MPI_BYTE,
				     previous, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check("ring", in, sizes[s], previous, rank, round);
		}
		free(out);
		free(in);
	}
}

static void alltoall(void)
{
	for (int s = 0; s < SIZES - 1; s++) {
		size_t size = sizes[s];
		unsigned char *out = malloc(size * ranks), *in = calloc(ranks, size);

		for (int to = 0; to < ranks; to++)
			fill(out + to * size, size, rank, to, s);
		MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
		for (int from = 0; from < ranks; from++)
			check("alltoall", in + from * size, size, from, rank, s);
		free(out);
		free(in);
	}
}

static void allreduce(void)
{
	enum {
		COUNT = 100000,
	};
	long *out = malloc(COUNT * sizeof(*out)), *in = malloc(COUNT * sizeof(*in));

	for (int count = 1; count <= COUNT; count *= 10) {
		for (long i = 0; i < count; i++)
			out[i] = i * 1000 + rank;
		memset(in, 0, count * sizeof(*in));
		MPI_Allreduce(out, in, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		for (long i = 0; i < count; i++) {
			if (in[i] != i * 1000 * ranks + (long)ranks * (ranks - 1) / 2) {
				printf("BAD allreduce: rank %d: sum %ld of %d\n", rank, i, count);
				give_up();
			}
		}
	}
	free(out);
	free(in);
}

// Each rank writes into a part of every rank's window that is its own.
static void put(void)
{
	for (int s = 0; s < SIZES - 1; s++) {
		size_t size = sizes[s];
		unsigned char *out = malloc(size * ranks), *memory;
		MPI_Win window;

		MPI_Win_allocate(size * ranks, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
		memset(memory, 0, size * ranks);
		MPI_Win_fence(0, window);
		for (int to = 0; to < ranks; to++) {
			fill(out + to * size, size, rank, to, s);
			MPI_Put(out + to * size, size, MPI_BYTE, to, rank * size, size, MPI_BYTE,
				window);
		}
		MPI_Win_fence(0, window);
		for (int from = 0; from < ranks; from++)
			check("put", memory + from * size, size, from, rank, s);
		MPI_Win_free(&window);
		free(out);
	}
}

// Each rank reads from every rank's window the part that is for it.
static void get(void)
{
	for (int s = 0; s < SIZES - 1; s++) {
		size_t size = sizes[s];
		unsigned char *in = calloc(ranks, size), *memory;
		MPI_Win window;

		MPI_Win_allocate(size * ranks, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
		for (int to = 0; to < ranks; to++)
			fill(memory + to * size, size, rank, to, s);
		MPI_Win_fence(0, window);
		for (int from = 0; from < ranks; from++)
			MPI_Get(in + from * size, size, MPI_BYTE, from, rank * size, size, MPI_BYTE,
				window);
		MPI_Win_fence(0, window);
		for (int from = 0; from < ranks; from++)
			check("get", in + from * size, size, from, rank, s);
		MPI_Win_free(&window);
		free(in);
	}
}

// All ranks count with one counter: each number is given once, and none is left out.
static void fetch_and_op(void)
{
	const long one = 1;
	long *counter, mine[FETCHES], *all = malloc(sizeof(mine) * ranks);
	char *given = calloc(ranks, FETCHES);
	MPI_Win window;

	MPI_Win_allocate(sizeof(*counter), sizeof(*counter), MPI_INFO_NULL, MPI_COMM_WORLD,
			 &counter, &window);
	*counter = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < FETCHES; i++) {
		MPI_Fetch_and_op(&one, &mine[i], MPI_LONG, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
	}
	MPI_Win_unlock_all(window);
	MPI_Allgather(mine, FETCHES, MPI_LONG, all, FETCHES, MPI_LONG, MPI_COMM_WORLD);
	for (int i = 0; i < FETCHES * ranks; i++) {
		if (all[i] < 0 || all[i] >= FETCHES * ranks || given[all[i]]) {
			printf("BAD fetch_and_op: rank %d: number %ld\n", rank, all[i]);
			give_up();
		}
		given[all[i]] = 1;
	}
	MPI_Win_free(&window);
	free(all);
	free(given);
}

static bool is_named(const char *name, char **names)
{
	bool named = !*names;

	for (; *names; names++)
		named |= strcmp(*names, name) == 0;
	return named;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "ring", ring }, { "alltoall", alltoall }, { "allreduce", allreduce },
	{ "put", put },	  { "get", get },	    { "fetch_and_op", fetch_and_op },
};

int main(int argc, char **argv)
{
	struct timespec now;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!is_named(cases[i].name, argv + 1))
			continue;
		cases[i].run();
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0) {
			printf("ok %s of %d\n", cases[i].name, ranks);
			fflush(stdout);
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (rank == 0)
		printf("last call at %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
