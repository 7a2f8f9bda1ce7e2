/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h - the way between page-locked host memory and GPU memory: copies that run beside the I/O, in batches with one event each. */
#ifndef GPUIO_STAGE_H
#define GPUIO_STAGE_H

#include "run.h"

struct gpuio_copies {
	cuda_event event;
	uint32_t n;  /* requests, the next ones of stage->line */
	bool out;    /* from GPU to host: then they are ready to be written, else they are over */
};

struct gpuio_stage {
	struct gpuio_copies *batches; /* a ring: oldest first */
	uint32_t size, head, count;
	struct gpuio_io **line;       /* a ring of job.slots: requests of the batches, in their order */
	uint32_t line_head, line_count;
	struct gpuio_io **ready;      /* a ring of job.slots: drawn, and what is to be written is in host memory */
	uint32_t ready_head, nready;
	struct gpuio_io **gathered;   /* reaped reads whose copy has not begun, job.slots places */
	uint32_t ngathered;
	uint64_t *marked;             /* one bit a slot; all clear between calls */
	uint32_t words, turn;
	uint64_t gap;                 /* bytes between two slots that are copied along rather than begin another copy */
	bool verifies;                /* every read is checked in GPU memory */
};

/* Slots beyond the depth, when the spec leaves the choice. */
uint32_t gpuio_stage_ahead(const struct gpuio_spec *spec, bool synchronous);
int gpuio_stage_open(struct gpuio_worker *w);
void gpuio_stage_close(struct gpuio_worker *w);
/* Begins to copy n requests: of `out`, from GPU to host. Waits only when more batches are under way than events were made. */
int gpuio_stage_copy(struct gpuio_worker *w, struct gpuio_io *const *ios, uint32_t n, bool out);
/* Begins to copy what is gathered, unless so many batches are under way that it had better wait for more. */
int gpuio_stage_flush(struct gpuio_worker *w);
/* Takes over batches that have ended; with `wait`, for the oldest one first. How many requests, or -errno. */
int gpuio_stage_retire(struct gpuio_worker *w, bool wait);
/* A read or write whose whole way is over. */
void gpuio_stage_land(struct gpuio_worker *w, struct gpuio_io *io, uint64_t begun, uint64_t now);

#endif
