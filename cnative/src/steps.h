/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - what the closed and the open loop do with a request, inlined into both: no allocation, no lock and no system call
 * but the engine's own. */
#ifndef GPUIO_STEPS_H
#define GPUIO_STEPS_H

#include <errno.h>

#include "hist.h"
#include "pattern.h"
#include "run.h"

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
void gpuio_note_error(struct gpuio_tally *t, int error, int op, uint64_t offset);
void gpuio_check_read(struct gpuio_worker *w, const struct gpuio_io *io);
void gpuio_sync_file(struct gpuio_worker *w, bool whole);

static inline void complete(struct gpuio_worker *w, struct gpuio_io *io, uint64_t now)
{
	struct gpuio_tally *t = &w->tally;

	w->free[w->nfree++] = io;
	if (__builtin_expect(io->result != (int64_t)io->length, 0)) {
		if (io->result < 0)
			gpuio_note_error(t, (int)io->result, io->op, io->offset);
		else
			t->short_ios++;
		return;
	}
	t->ios++;
	t->reads += io->op == GPUIO_READ;
	hist_add(&w->lat, ticks_to_ns(&w->ticker, ticks_between(io->started, now)));
	if (w->observable) {
		hist_add(&w->slat, ticks_to_ns(&w->ticker, ticks_between(io->started, io->submitted)));
		hist_add(&w->clat, ticks_to_ns(&w->ticker, ticks_between(io->submitted, now)));
	}
	if (w->scheduled) {
		hist_add(&w->lag, ticks_to_ns(&w->ticker, ticks_between(io->intended, io->started)));
		hist_add(&w->response, ticks_to_ns(&w->ticker, ticks_between(io->intended, now)));
	}
	if (w->verifies && io->op == GPUIO_READ)
		gpuio_check_read(w, io);
}

/* Draws up to n requests into w->batch; fewer when one of them makes a sync due. */
static inline unsigned prepare(struct gpuio_worker *w, unsigned n)
{
	const struct gpuio_spec *spec = &w->run->spec;
	unsigned k = 0;

	while (k < n) {
		struct gpuio_io *io = w->free[--w->nfree];

		io->offset = offsets_next(&w->offsets, &io->op);
		io->result = GPUIO_UNUSED;
		w->batch[k++] = io;
		if (io->op == GPUIO_READ)
			continue;
		if (engine_moves_data(w->job.engine))
			gpuio_pattern_stamp(io->buf, io->length, io->offset, spec->pattern_seed);
		if (spec->sync == GPUIO_SYNC_EVERY && ++w->unsynced >= spec->sync_every) {
			w->sync_due = true;
			break;
		}
	}
	return k;
}

/* Offers n requests; returns how many the engine took, or -errno. `issued` counts those of this window before. */
static inline int offer(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n, uint64_t issued)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t own, integral, before, mark;
	int taken;

	/*
	 * The counter's own stamp. With one request at a time and others in flight its last one serves: between the end of the
	 * former call and here only the next request was drawn, which is nothing against the latency of a whole queue.
	 */
	own = w->coarse ? f->last : stamp(&w->ticker);
	flow_mark(f, own);
	if (__builtin_expect(!f->on, 0) && issued + n >= w->ramp)
		flow_begin(f, own, w->tally.ios, w->lat.sum_ns);
	integral = f->integral;
	f->level += n;
	before = stamp(&w->ticker);
	for (unsigned i = 0; i < n; i++)
		ios[i]->started = before;
	taken = w->job.engine->submit(&w->job, ios, n);
	if (__builtin_expect(taken > (int)n, 0))
		taken = -EPROTO;
	mark = f->last;
	if (w->observable) {
		uint64_t after = stamp(&w->ticker);

		for (int i = 0; i < taken; i++)
			ios[i]->submitted = after;
		/* No total latency has this stamp in it, so the counter may. */
		flow_mark(f, after);
	}
	if (__builtin_expect(taken != (int)n, 0)) {
		uint64_t refused = taken < 0 ? n : n - (unsigned)taken;

		if (!w->observable)
			flow_mark(f, stamp(&w->ticker));
		f->level -= refused;
		f->integral -= refused * ticks_between(mark, f->last); /* they were not in flight during the call */
	}
	if (f->level > f->max)
		f->max = f->level;
	if (__builtin_expect(issued + n == w->share, 0) && taken == (int)n)
		flow_settle(f, own, integral, w->tally.ios, w->lat.sum_ns);
	return taken;
}

/* Takes over n finished requests that were reaped just now. */
static inline int take_over(struct gpuio_worker *w, int n)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t now;

	if (__builtin_expect(n < 0, 0))
		return n;
	if (__builtin_expect((uint64_t)n > f->level, 0))
		return -EPROTO;
	/* The counter's stamp comes first, as in offer: so both clocks see intervals of the same length. */
	flow_mark(f, stamp(&w->ticker));
	now = stamp(&w->ticker);
	for (int i = 0; i < n; i++)
		complete(w, w->done[i], now);
	f->level -= (unsigned)n;
	return n;
}

/* Reaps at least min requests when there are so many; how many, or -errno. */
static inline int harvest(struct gpuio_worker *w, unsigned min)
{
	uint64_t level = w->tally.flow.level;
	int n;

	if (min > level)
		min = (unsigned)level;
	n = take_over(w, w->job.engine->reap(&w->job, w->done, min, w->run->spec.depth));
	/* An engine that hands nothing back cannot be waited for past the deadline. */
	if (__builtin_expect(n == 0, 0) && min > 0 && given_up(w))
		return -ETIMEDOUT;
	return n;
}

#endif
