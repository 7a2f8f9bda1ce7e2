/* SPDX-License-Identifier: Apache-2.0 */
/* offer.h - how requests are offered to the engine and where that is stamped, inlined into the job loops through steps.h. */
#ifndef GPUIO_OFFER_H
#define GPUIO_OFFER_H

#include <errno.h>
#include <string.h>

#include "run.h"

static inline void settle(struct gpuio_worker *w)
{
	flow_settle(&w->tally.flow, w->tally.ios, w->lat.sum_ns);
}

/* The in-flight counter stands at `now`, when what was issued so far begins the steady stretch or ends it. */
static inline void flow_turn(struct gpuio_worker *w, uint64_t now, uint64_t issued)
{
	struct gpuio_flow *f = &w->tally.flow;

	if (__builtin_expect(!f->on, 0) && issued >= w->ramp)
		flow_begin(f, now, w->tally.ios, w->lat.sum_ns);
	if (__builtin_expect(issued == w->share, 0))
		settle(w);
}

static inline void flow_step(struct gpuio_worker *w, uint64_t now, uint64_t issued)
{
	flow_mark(&w->tally.flow, now);
	flow_turn(w, now, issued);
}

/*
 * Four ways to offer requests to the engine; each returns how many it took, or -errno. They differ in where stamps are taken:
 * one costs up to 25 ns, as much as all the rest of the loop.
 */

static inline int submit(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n)
{
	int taken = w->job.engine->submit(&w->job, ios, n);

	return __builtin_expect(taken > (int)n, 0) ? -EPROTO : taken;
}

/* The engine only queues: what is offered begins with the call that reaps (begin_reaping), and has its stamps there. */
static inline int offer_queued(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n)
{
	int taken = submit(w, ios, n);

	if (taken <= 0)
		return taken;
	/* They stay in w->batch, without the gap that a refusal before the last reap has left. */
	if (__builtin_expect(ios != w->batch + w->nqueued, 0))
		memmove(w->batch + w->nqueued, ios, (size_t)taken * sizeof(*ios));
	w->nqueued += (unsigned)taken;
	return taken;
}

/*
 * One at a time with many others in flight: the end of one submission is the beginning of the next one, between which only an
 * offset was drawn. Here the in-flight counter goes by the same stamps; it has its own where requests end.
 */
static inline int offer_chained(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t before = w->chain, after;
	int taken;

	if (!before) { /* else that is where the counter stands */
		before = stamp(&w->ticker);
		flow_mark(f, before);
	}
	flow_turn(w, before, w->issued + 1);
	ios[0]->started = before;
	taken = submit(w, ios, n);
	w->chain = 0;
	if (__builtin_expect(taken != 1, 0)) {
		f->over = false; /* had it been the last one, the steady stretch goes on */
		return taken;
	}
	after = stamp(&w->ticker);
	ios[0]->submitted = w->chain = after;
	f->level++;
	flow_mark(f, after);
	if (f->level > f->max)
		f->max = f->level;
	return taken;
}

/* Depth 1: nothing is in flight but the one request that the call is about. What a counter of its own would add here is the noise of the
 * moments between its stamps and the latency's, in which a thread may lose its CPU. */
static inline int offer_alone(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t before = stamp(&w->ticker);
	int taken;

	flow_step(w, before, w->issued + n);
	f->level += n;
	f->max = 1;
	ios[0]->started = before;
	taken = submit(w, ios, n);
	if (w->observable)
		ios[0]->submitted = stamp(&w->ticker);
	if (__builtin_expect(taken != 1, 0)) {
		f->level -= n;
		f->last = stamp(&w->ticker);
		f->over = false; /* had it been the last one, the steady stretch goes on */
	}
	return taken;
}

static inline int offer_stamped(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t own = stamp(&w->ticker), before, after;
	int taken;

	flow_step(w, own, w->issued + n);
	f->level += n;
	before = stamp(&w->ticker);
	for (unsigned i = 0; i < n; i++)
		ios[i]->started = before;
	taken = submit(w, ios, n);
	after = stamp(&w->ticker);
	for (int i = 0; i < taken; i++)
		ios[i]->submitted = after;
	if (__builtin_expect(taken != (int)n, 0)) {
		uint64_t refused = taken < 0 ? n : n - (unsigned)taken;

		flow_mark(f, after);
		f->level -= refused;
		f->integral -= refused * ticks_between(own, after); /* they were not in flight during the call */
		f->over = false;                                    /* see above */
	}
	if (f->level > f->max)
		f->max = f->level;
	return taken;
}

static inline int offer(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n)
{
	int taken;

	if (w->merged)
		taken = offer_queued(w, ios, n);
	else if (w->alone)
		taken = offer_alone(w, ios, n);
	else if (w->coarse)
		taken = offer_chained(w, ios, n);
	else
		taken = offer_stamped(w, ios, n);
	if (taken > 0)
		w->issued += (unsigned)taken;
	return taken;
}

#endif
