/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Board - memory that all processes of a run share beside the library: addresses, numbers of
 * verified steps, the process that was killed.
 *
 * Made by the parent before it forks. Each field has one writer, named here.
 */
#ifndef STRESS_BOARD_H
#define STRESS_BOARD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PROCS_MAX 32
#define STAGES	  8

struct settings {
	uint64_t seed;
	unsigned int procs;
	unsigned int threads;
	unsigned int ops; /* steps of each process towards each other */
	int kill;	  /* the process to be killed, -1: none */
	bool stop;	  /* processes are stopped and go on, at random */
	bool forks;	  /* their threads fork */
	bool signals;	  /* their signal handlers write to a region */
	unsigned int limit_s;
	unsigned int patience;
};

/* Written by the process itself. */
struct seat {
	union ibv_gid gid;
	uint16_t lid;
	uint32_t qpn[PROCS_MAX]; /* RC, towards each other */
	uint32_t uc_qpn[2];	 /* towards the next, towards the one before */
	uint32_t ud_qpn;
	uint64_t target, source, words; /* addresses */
	uint32_t target_rkey, source_rkey, words_rkey;
	_Atomic uint32_t posted;	      /* steps so far: the parent kills by it */
	_Atomic uint32_t verified[PROCS_MAX]; /* WRITEs of each other, seen and cleared */
	uint64_t added[PROCS_MAX];	      /* to the shared word of each other, at the end */
	uint64_t swapped[PROCS_MAX];
	uint64_t bytes, completions, lost; /* for the summary */
	_Atomic uint64_t forks, signals;
	_Atomic uint32_t stopped; /* parent: how often */
	uint32_t settled_ms;	  /* from the kill to the last completion of the dead one's QP */
};

struct board {
	struct settings settings;
	_Atomic unsigned int arrived[STAGES];
	_Atomic int killed; /* parent: 0, or the process's number + 1, set right before the kill */
	_Atomic uint64_t killed_at_ms; /* parent, before that */
	_Atomic bool failed;	       /* any process that fails */
	_Atomic bool out_of_time;      /* parent, before `failed` */
	struct seat seat[PROCS_MAX];
};

#endif
