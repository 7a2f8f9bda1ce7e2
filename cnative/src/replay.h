/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - which record is next: groups and chains as the workers of a run share them, without a lock. */
#ifndef GPUIO_REPLAY_H
#define GPUIO_REPLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpuio.h"
#include "replay_queue.h"

#define GPUIO_NO_GROUP UINT32_MAX

struct gpuio_run;
struct gpuio_worker;
struct gpuio_compute;

/* One group in the window at hand. */
struct gpuio_turn {
	atomic_uint next;         /* records handed out */
	atomic_uint over;         /* records that have ended */
	atomic_uint parked;       /* 1 = who takes the last one before a barrier is to go on with it */
	atomic_uint_least64_t start, end; /* ticks; 0 = not yet */
	uint64_t due, consume;    /* ticks */
	uint64_t computed_ns;     /* what a kernel took */
	uint32_t following;       /* next group of its chain, GPUIO_NO_GROUP = it is the last one */
};

/* One chain in the window at hand. Past `events` only one worker at a time. */
struct gpuio_row {
	atomic_uint events;       /* ends of groups that have not been looked at */
	uint32_t consume;         /* next group of the consumer */
	uint32_t release;         /* next group that is let go */
	uint64_t free_at;         /* ticks at which the consumer's last compute ends */
};

struct gpuio_replay {
	const struct gpuio_replay_spec *spec;
	struct gpuio_turn *turns; /* n_groups */
	struct gpuio_row *rows;   /* n_chains */
	uint32_t *heads;          /* first group of each chain of the window, in order of their start */
	uint32_t nheads, first, n; /* groups of the window */
	uint32_t heap_size;       /* entries that a worker's heap may need */
	struct gpuio_ready ready; /* groups that may start now */
	int64_t epoch_ns;         /* of the window's earliest time: what times are counted from */
	uint64_t late_ticks;
	uint64_t timed;           /* groups of the window with a time */
	bool has_times;           /* some group of the whole set has one */

	atomic_uint next_head;
	atomic_uint active;       /* chains at work */
	atomic_uint left;         /* groups of the window that have not ended */
	atomic_uint broken;       /* a worker has ended early */
	atomic_uint bell, idle;   /* futex, and workers that wait on it */
	atomic_uint keeper;       /* one of them watches the clock for the next chain to start */
	/* A consumer on a GPU; but for the last two, only who has the chain touches this. */
	struct gpuio_compute *compute; /* NULL = computing is time that passes */
	struct gpuio_row *gpu_row; /* the chain of the window at hand that computes there; NULL = none */
	uint32_t on_gpu[2];       /* groups that are computed, the oldest first */
	uint64_t handed_at[2];    /* ticks at which they were handed over */
	uint64_t gpu_ended;       /* ticks at which the last one of those before them ended; 0 = there was none */
	int gpu_error;
	struct gpuio_why gpu_why;
	atomic_uint_least64_t look_at; /* ticks at which the oldest is likely to end; UINT64_MAX = none runs */
	atomic_uint looker;       /* worker that looks then */
	atomic_uint *open;        /* per worker: the group it takes records from, + 1; for those that have none of their own */
};

int gpuio_replay_check(const struct gpuio_spec *spec, bool moves_data, struct gpuio_why *why);
struct gpuio_replay *gpuio_replay_new(const struct gpuio_replay_spec *spec, uint32_t jobs);
void gpuio_replay_free(struct gpuio_replay *rp);
/* Before a window, from the caller's thread. */
void gpuio_replay_rewind(struct gpuio_replay *rp, uint32_t first, uint32_t n, double ticks_per_ns, uint32_t jobs);
/* After it. */
void gpuio_replay_report(const struct gpuio_run *run, struct gpuio_group_result *results);

enum gpuio_draw { GPUIO_DRAWN, GPUIO_LATER };

/* The worker's next record and its group; or LATER, and *until = ticks before which nothing is due here, UINT64_MAX = unknown. */
enum gpuio_draw gpuio_replay_draw(struct gpuio_worker *w, uint64_t *record, uint32_t *group, uint64_t *until);
/* A record has ended, or has failed to. */
void gpuio_replay_over(struct gpuio_worker *w, uint32_t group, uint64_t now);
/* A group may start at the time `when`: true when that is now, and it waits for any worker; else this one keeps it until then. */
bool gpuio_replay_let_go(struct gpuio_worker *w, uint32_t group, uint64_t when, uint64_t now);
/* Its chain's consumer goes on as far as it can, and lets go what that makes room for; returns how many groups of them now. */
unsigned gpuio_replay_consume_all(struct gpuio_worker *w, struct gpuio_row *row, uint64_t now);
/* replay_compute.c: the same, once, of the chain that computes on a GPU. */
unsigned gpuio_replay_compute(struct gpuio_worker *w, uint64_t now);
/* Looks whether what is computed on the GPU has ended, if this worker is to do so by now. */
void gpuio_replay_look(struct gpuio_worker *w);
/* After the window, from the caller's thread: what was read is computed to its end. 0 or -errno. */
int gpuio_replay_settle(struct gpuio_run *run, struct gpuio_why *why);
/* Waits, with nothing in flight, until the time in ticks or until another worker has work or has ended it. */
void gpuio_replay_idle(struct gpuio_worker *w, uint64_t until);
/* Wakes up to n workers that wait; the last ones of a window, too. */
void gpuio_replay_ring(struct gpuio_replay *rp, unsigned n);

#endif
