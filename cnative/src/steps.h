/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - what the closed and the open loop do with a request, inlined into both: no allocation, no lock and no system call
 * but the engine's own. */
#ifndef GPUIO_STEPS_H
#define GPUIO_STEPS_H

#include <errno.h>

#include "complete.h"
#include "offer.h"
#include "pattern.h"

#define MAX_REFUSALS 10000 /* in a row with nothing in flight: then the engine will never take it */

static inline bool given_up(const struct gpuio_worker *w)
{
	return atomic_load_explicit(&w->run->give_up, memory_order_relaxed) != 0;
}

static inline bool halted(const struct gpuio_worker *w)
{
	const uint32_t *stop = w->run->spec.stop;

	return (stop && __atomic_load_n(stop, __ATOMIC_RELAXED)) || given_up(w);
}

/* loop.c */
void gpuio_stamp_write(struct gpuio_worker *w, const struct gpuio_io *io);
void gpuio_sync_file(struct gpuio_worker *w, bool whole);
void gpuio_sync_one(struct gpuio_worker *w, uint16_t file, int fd, bool whole);

/* Random reads, the whole of them from the permutation in use: its numbers stay in registers, as nothing written here can be one of them. */
static inline void prepare_random_reads(struct gpuio_worker *w, unsigned n)
{
	struct gpuio_io **free = w->free + w->nfree, **batch = w->batch + w->nqueued;
	struct gpuio_offsets *o = &w->offsets;
	const struct gpuio_permutation perm = o->perm;
	const uint64_t region = o->region_offset, block = o->block, stride = o->stride;
	uint64_t at = o->at;

	for (unsigned k = 0; k < n; k++, at += stride) {
		struct gpuio_io *io = *--free;

		io->op = GPUIO_READ;
		io->offset = region + permute(&perm, at) * block;
		io->result = GPUIO_UNUSED;
		batch[k] = io;
	}
	o->at = at;
	o->i += n;
	o->left -= n;
	w->nfree -= n;
}

/* Draws up to n requests into w->batch, behind those queued there; fewer when one of them makes a sync due. */
static inline unsigned prepare(struct gpuio_worker *w, unsigned n)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_io **free = w->free + w->nfree, **batch = w->batch + w->nqueued;
	unsigned k = 0;

	if (w->offsets.order == GPUIO_RANDOM && spec->read_percent == 100 && w->offsets.left > n) {
		prepare_random_reads(w, n);
		return n;
	}
	while (k < n) {
		struct gpuio_io *io = *--free;

		io->offset = offsets_next(&w->offsets, &io->op);
		io->result = GPUIO_UNUSED;
		batch[k++] = io;
		if (io->op == GPUIO_READ)
			continue;
		if (__builtin_expect(w->side != NULL, 0))
			gpuio_stamp_write(w, io);
		else if (engine_moves_data(w->job.engine))
			gpuio_pattern_stamp(io->buf, io->length, io->offset, spec->pattern_seed);
		if (spec->sync == GPUIO_SYNC_EVERY && ++w->unsynced >= spec->sync_every) {
			w->sync_due = true;
			break;
		}
	}
	w->nfree -= k;
	return k;
}

static inline uint64_t outstanding(const struct gpuio_worker *w)
{
	return w->tally.flow.level + w->nqueued;
}

/* Just before a call that reaps. */
static inline void begin_reaping(struct gpuio_worker *w)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t before;

	if (w->nqueued) {
		before = stamp(&w->ticker);
		flow_step(w, before, w->issued);
		if (w->uniform && f->level)
			tell_apart(w);
		w->uniform = w->plain && f->level == 0;
		f->level += w->nqueued;
		if (f->level > f->max)
			f->max = f->level;
		if (!w->alone && !w->coarse)
			before = stamp(&w->ticker);
		if (w->uniform)
			w->together = before;
		else
			for (unsigned i = 0; i < w->nqueued; i++)
				w->batch[i]->started = before;
		w->nqueued = 0;
	}
	w->chain = 0;
}

/* Takes over n finished requests that were reaped just now. */
static inline int take_over(struct gpuio_worker *w, int n)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t now;

	if (__builtin_expect(n <= 0, 0))
		return n;
	if (__builtin_expect((uint64_t)n > f->level, 0))
		return -EPROTO;
	now = stamp(&w->ticker);
	if (!f->over) {
		flow_mark(f, now);
		/* The counter's own stamp came first, as in offering: so both see intervals of the same length. */
		if (!w->alone)
			now = stamp(&w->ticker);
	}
	if (!complete(w, (unsigned)n, now)) {
		if (w->uniform)
			tell_apart(w);
		complete_each(w, (unsigned)n, now);
	}
	f->level -= (unsigned)n;
	return n;
}

/* Reaps at least min requests when there are so many; how many, or -errno. */
static inline int harvest(struct gpuio_worker *w, unsigned min)
{
	int n;

	begin_reaping(w);
	if (min > w->tally.flow.level)
		min = (unsigned)w->tally.flow.level;
	n = take_over(w, w->job.engine->reap(&w->job, w->done, min, w->run->spec.depth));
	/* An engine that hands nothing back cannot be waited for past the deadline. */
	if (__builtin_expect(n == 0, 0) && min > 0 && given_up(w))
		return -ETIMEDOUT;
	return n;
}

#endif
