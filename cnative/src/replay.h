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

/* One group in the window at hand. */
struct gpuio_turn {
	atomic_uint next;         /* records handed out */
	atomic_uint over;         /* records that have ended */
	atomic_uint parked;       /* 1 = who takes the last one before a barrier is to go on with it */
	atomic_uint_least64_t start, end; /* ticks; 0 = not yet */
	uint64_t due, consume;    /* ticks */
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

	atomic_uint next_head;
	atomic_uint active;       /* chains at work */
	atomic_uint left;         /* groups of the window that have not ended */
	atomic_uint broken;       /* a worker has ended early */
	atomic_uint bell, idle;   /* futex, and workers that wait on it */
	atomic_uint keeper;       /* one of them watches the clock for the next chain to start */
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
/* Waits, with nothing in flight, until the time in ticks or until another worker has work or has ended it. */
void gpuio_replay_idle(struct gpuio_worker *w, uint64_t until);
/* Wakes up to n workers that wait; the last ones of a window, too. */
void gpuio_replay_ring(struct gpuio_replay *rp, unsigned n);

#endif
