/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - what a run and its workers share. */
#ifndef GPUIO_RUN_H
#define GPUIO_RUN_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "buffers.h"
#include "clock.h"
#include "flow.h"
#include "gpuio.h"
#include "offsets.h"
#include "process.h"
#include "replay.h"
#include "side.h"

#define GPUIO_MAX_ERRORS 64
#define GPUIO_UNUSED INT64_MIN /* io->result of a slot that no request of this window has used */

/* What one worker counted in one window. */
struct gpuio_tally {
	uint64_t ios, reads, writes, bytes, errors, short_ios;
	int32_t first_error, first_error_op;
	uint64_t first_error_offset;
	uint64_t syncs, sync_ns;
	uint64_t verified, bad, first_bad_offset;
	uint64_t late; /* open loop */
	uint64_t landed, copies, copied_bytes; /* GPU memory reached by copies: requests that are over, and what was copied */
	bool stopped;
	struct gpuio_flow flow;
	struct gpuio_flow total; /* of `landed`, as flow is of ios */
};

struct gpuio_worker {
	alignas(64) struct gpuio_run *run; /* workers share no cache line */
	struct gpuio_job job;
	struct gpuio_offsets offsets;
	struct gpuio_ticker ticker;
	struct gpuio_io *slots;
	struct gpuio_io **free, **batch, **done; /* job.slots pointers each */
	struct gpuio_side *side;   /* NULL = host memory */
	struct gpuio_stage *stage; /* NULL = the engine reaches the destination by itself */
	uint32_t nfree;
	uint32_t nqueued;   /* merged: the first ones of batch are with the engine, which has yet to submit them */
	uint32_t unsynced;  /* writes since the last fdatasync; goes on from window to window */
	bool sync_due;
	bool observable;    /* submit returns before the I/O is over and has really submitted it */
	bool verifies;      /* every read is checked inside the window */
	bool scheduled;     /* open loop */
	bool holds;         /* held_record has been drawn and is not begun */
	bool synchronous;   /* the engine is */
	bool alone;         /* depth 1 */
	bool merged;        /* submit only queues; what it took begins with the next reap */
	bool coarse;        /* fewer stamps will do, see offer.h */
	bool plain;         /* merged, and no request's own beginning is ever asked for */
	bool uniform;       /* plain: all requests in flight began at `together` */
	uint32_t unit;      /* requests offered at once: a submit batch, or where submit only queues all there is room for */
	uint32_t drawn;     /* requests drawn at once: where they go one at a time, all there is room for, as draws hide each other's time */
	uint32_t ramp;      /* requests issued when the steady stretch begins */
	double ticks_per_ns;
	uint64_t late_ticks; /* open loop: a request sent later than this is late */
	uint64_t share;     /* requests of this window */
	uint64_t issued;    /* of them, taken by the engine */
	uint64_t together;
	uint64_t chain;     /* coarse: end of the former submission when nothing came between, else 0 */
	struct gpuio_heap heap; /* records: groups that this worker has let go, to start later */
	uint64_t held_record;
	uint32_t held_group;
	struct gpuio_tally tally;
	struct gpuio_worker_result result;
	uint64_t finished;  /* generation of the last window it finished; under run->lock */
	int open_error;
	bool started;
	pthread_t thread;
	struct gpuio_hist slat, clat, lat, lag, response, copy, total;
};

struct gpuio_run {
	struct gpuio_spec spec; /* its pointers lead to the copies below */
	struct gpuio_clock clock;
	int32_t *cpus, *sq_cpus;
	uint64_t *arrivals;
	char *library, *gpu_library;
	int32_t *gpus;
	uint64_t *seeds;         /* of the pattern, by file; one entry without records */
	struct gpuio_replay *replay; /* NULL without records */
	const struct gpuio_engine *engine;
	struct gpuio_worker *workers;
	uint32_t effective;
	struct gpuio_why knob_why;

	pthread_mutex_t lock;
	pthread_cond_t go;     /* to the workers: a new generation, or quit */
	pthread_cond_t report; /* from the workers: opened, finished or gone */
	bool locks_ready;
	uint64_t generation;
	uint32_t opened, finished, gone;
	bool quit;
	bool spent;             /* a worker failed or was late: only close may follow */
	bool has_window;
	atomic_uint give_up;    /* the deadline has passed */
	atomic_uint arrived;    /* workers at the start barrier */
	pthread_barrier_t barrier;

	uint64_t start_ns, start_ticks; /* written by the last worker to arrive or to finish */
	struct gpuio_usage usage_start, usage_end;
	struct gpuio_clock_pair pair_start, pair_end;
	struct gpuio_hist slat, clat, lat, lag, response, copy, total;
};

/* check.c: refuses a spec that cannot work, before anything is started. */
int gpuio_spec_check(const struct gpuio_spec *spec, const struct gpuio_engine *engine, struct gpuio_why *why);
/* worker.c */
void *gpuio_worker_main(void *worker);
/* loop.c and arrivals.c: the worker's share of one window, engine open; 0 or -errno of the worker itself. */
int gpuio_closed_loop(struct gpuio_worker *w);
int gpuio_open_loop(struct gpuio_worker *w);
/* staged.c: the same for GPU memory that is reached by copies, closed, open and over records. */
int gpuio_staged_loop(struct gpuio_worker *w);
/* replay_loop.c: over records, in host memory. */
int gpuio_replay_loop(struct gpuio_worker *w);
/* run.c: waits for report until *count == want; deadline 0 = without end. False when the deadline passed. */
bool gpuio_run_wait(struct gpuio_run *run, const uint32_t *count, uint32_t want, uint64_t deadline_ns);
/* window.c */
void gpuio_window_collect(struct gpuio_run *run, struct gpuio_window *window);
/* Every block of the last window can be checked in place: whole sectors at sector boundaries. */
static inline bool spec_aligned(const struct gpuio_spec *spec)
{
	return spec->block % GPUIO_SECTOR == 0 && spec->region_offset % GPUIO_SECTOR == 0;
}

/* Where the body of a slot's data comes from: a place no file has, another one for each slot, so that no two share a body. */
static inline uint64_t slot_place(const struct gpuio_worker *w, uint32_t slot)
{
	uint64_t place = (uint64_t)w->job.worker * w->job.slots + slot;

	return (UINT64_C(1) << 62) + place * slot_stride(w->run->spec.block);
}

static inline bool engine_moves_data(const struct gpuio_engine *engine)
{
	return !(engine->flags & GPUIO_ENGINE_NO_FILE);
}

#endif
