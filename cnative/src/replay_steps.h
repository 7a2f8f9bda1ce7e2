/* SPDX-License-Identifier: Apache-2.0 */
/* replay_steps.h - what the loops over records do with one of them, in host memory and on the way into GPU memory. */
#ifndef GPUIO_REPLAY_STEPS_H
#define GPUIO_REPLAY_STEPS_H

#include "run.h"

/* The worker's next record: the one that was held back, else as gpuio_replay_draw. */
static inline enum gpuio_draw gpuio_replay_next(struct gpuio_worker *w, uint64_t *record, uint32_t *group, uint64_t *until)
{
	if (!w->holds)
		return gpuio_replay_draw(w, record, group, until);
	*record = w->held_record;
	*group = w->held_group;
	w->holds = false;
	return GPUIO_DRAWN;
}

/* Puts a drawn record back, to be the next. */
static inline void gpuio_replay_hold(struct gpuio_worker *w, uint64_t record, uint32_t group)
{
	w->held_record = record;
	w->held_group = group;
	w->holds = true;
}

/* This worker ends early. Nobody else can end what it has taken up: the others must not wait for it. */
static inline void gpuio_replay_break(struct gpuio_replay *rp)
{
	atomic_store(&rp->broken, 1);
	gpuio_replay_ring(rp, UINT32_MAX);
}

/* A free slot's request for a record, which is no fsync. */
struct gpuio_io *gpuio_replay_request(struct gpuio_worker *w, uint64_t record, uint32_t group);
/* A request has ended, well or not. */
void gpuio_replay_end(struct gpuio_worker *w, const struct gpuio_io *io, uint64_t now);
/* Does an fsync's record, and ends it. */
void gpuio_replay_sync(struct gpuio_worker *w, uint64_t record, uint32_t group);

#endif
