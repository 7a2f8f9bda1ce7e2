/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - what the closed and the open loop do with a request, inlined into both: no allocation, no lock and no system call
 * but the engine's own. */
#ifndef GPUIO_STEPS_H
#define GPUIO_STEPS_H

#include <errno.h>
#include <string.h>

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
void gpuio_stamp_write(struct gpuio_worker *w, const struct gpuio_io *io);
void gpuio_sync_file(struct gpuio_worker *w, bool whole);
void gpuio_sync_one(struct gpuio_worker *w, uint16_t file, int fd, bool whole);

/* Requests that ended at the same time and began at the same time: each of their latencies is one number. */
struct gpuio_alike {
	uint64_t started, submitted, n;
};

static inline void count_alike(struct gpuio_worker *w, const struct gpuio_alike *a, uint64_t now)
{
	hist_add_n(&w->lat, ticks_to_ns(&w->ticker, ticks_between(a->started, now)), a->n);
	if (!w->observable)
		return;
	hist_add_n(&w->slat, ticks_to_ns(&w->ticker, ticks_between(a->started, a->submitted)), a->n);
	hist_add_n(&w->clat, ticks_to_ns(&w->ticker, ticks_between(a->submitted, now)), a->n);
}

static inline void count_arrival(struct gpuio_worker *w, const struct gpuio_io *io, uint64_t now)
{
	uint64_t lag = ticks_between(io->intended, io->started);

	hist_add_n(&w->lag, ticks_to_ns(&w->ticker, lag), 1);
	hist_add_n(&w->response, ticks_to_ns(&w->ticker, ticks_between(io->intended, now)), 1);
	w->tally.late += lag > w->late_ticks;
}

/* It failed or was short. */
static inline void count_bad(struct gpuio_tally *t, const struct gpuio_io *io)
{
	if (io->result < 0)
		gpuio_note_error(t, (int)io->result, io->op, io->offset);
	else
		t->short_ios++;
}

/* Writes down per request what held for all of them. */
static inline void tell_apart(struct gpuio_worker *w)
{
	for (uint32_t i = 0; i < w->job.slots; i++) /* those not in flight get a new stamp before they are */
		w->slots[i].started = w->together;
	w->uniform = false;
}

/* The usual case where a whole queue was emptied and filled again: all in flight began at one time, which no request holds. False =
 * one of the n is to be looked at. */
static inline bool complete_uniform(struct gpuio_worker *w, unsigned n, uint64_t now)
{
	struct gpuio_io **free = w->free + w->nfree;
	uint64_t writes = 0, different = 0;

	for (unsigned i = 0; i < n; i++) {
		struct gpuio_io *io = free[i] = w->done[i];

		different |= (uint64_t)io->result ^ io->length;
		writes += io->op; /* GPUIO_WRITE is 1 */
	}
	if (__builtin_expect(different != 0, 0))
		return false;
	hist_add_n(&w->lat, ticks_to_ns(&w->ticker, ticks_between(w->together, now)), n);
	w->nfree += n;
	w->tally.ios += n;
	w->tally.writes += writes;
	return true;
}

/* Requests sent one at a time (offer_chained), each with stamps of its own. False = one of the n is to be looked at. */
static inline bool complete_chained(struct gpuio_worker *w, unsigned n, uint64_t now)
{
	struct gpuio_io **free = w->free + w->nfree;
	struct gpuio_part lat = part_empty(), slat = part_empty(), clat = part_empty();
	uint64_t different = 0;

	for (unsigned i = 0; i < n; i++) {
		struct gpuio_io *io = free[i] = w->done[i];

		different |= (uint64_t)io->result ^ io->length;
	}
	if (__builtin_expect(different != 0, 0))
		return false;
	for (unsigned i = 0; i < n; i++) {
		const struct gpuio_io *io = free[i];

		part_add(&lat, &w->lat, ticks_to_ns(&w->ticker, ticks_between(io->started, now)));
		part_add(&slat, &w->slat, ticks_to_ns(&w->ticker, ticks_between(io->started, io->submitted)));
		part_add(&clat, &w->clat, ticks_to_ns(&w->ticker, ticks_between(io->submitted, now)));
	}
	part_end(&lat, &w->lat, n);
	part_end(&slat, &w->slat, n);
	part_end(&clat, &w->clat, n);
	w->nfree += n;
	w->tally.ios += n;
	return true;
}

/* The usual case of a batch: n requests of one batch, all of them well and none to be looked at. False = it is not that. */
static inline bool complete_alike(struct gpuio_worker *w, unsigned n, uint64_t now)
{
	struct gpuio_alike alike = {w->done[0]->started, w->done[0]->submitted, n};
	struct gpuio_io **free = w->free + w->nfree;
	uint64_t writes = 0, different = 0;

	for (unsigned i = 0; i < n; i++) {
		struct gpuio_io *io = free[i] = w->done[i];

		different |= (io->started ^ alike.started) | (io->submitted ^ alike.submitted);
		different |= (uint64_t)io->result ^ io->length;
		writes += io->op; /* GPUIO_WRITE is 1 */
	}
	if (__builtin_expect(different != 0, 0))
		return false;
	count_alike(w, &alike, now);
	w->nfree += n;
	w->tally.ios += n;
	w->tally.writes += writes;
	return true;
}

/* Counts n requests that were reaped at `now`. */
static inline void complete_each(struct gpuio_worker *w, unsigned n, uint64_t now)
{
	struct gpuio_alike alike = {0, 0, 0};
	struct gpuio_io **free = w->free + w->nfree;
	struct gpuio_tally *t = &w->tally;
	bool arrives = w->scheduled && !w->stage, closer = arrives || w->verifies;
	uint64_t good = 0, writes = 0;

	for (unsigned i = 0; i < n; i++) {
		struct gpuio_io *io = free[i] = w->done[i];

		if (__builtin_expect(io->result != (int64_t)io->length, 0)) {
			count_bad(t, io);
			continue;
		}
		good++;
		writes += io->op;
		if ((io->started ^ alike.started) | (io->submitted ^ alike.submitted)) {
			if (alike.n)
				count_alike(w, &alike, now);
			alike = (struct gpuio_alike){io->started, io->submitted, 0};
		}
		alike.n++;
		if (__builtin_expect(!closer, 1))
			continue;
		if (arrives)
			count_arrival(w, io, now);
		if (w->verifies && io->op == GPUIO_READ)
			gpuio_check_read(w, io);
	}
	if (alike.n)
		count_alike(w, &alike, now);
	w->nfree += n;
	t->ios += good;
	t->writes += writes;
}

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

/* The engine only queues: what is offered begins with the call that reaps (begin_queued), and has its stamps there. */
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

/* In the way of the usual case there is; false = it is none, and nothing was counted. */
static inline bool complete(struct gpuio_worker *w, unsigned n, uint64_t now)
{
	if (w->uniform)
		return complete_uniform(w, n, now);
	if (w->coarse && !w->merged)
		return complete_chained(w, n, now);
	return n >= 2 && !w->scheduled && !w->verifies && complete_alike(w, n, now);
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
