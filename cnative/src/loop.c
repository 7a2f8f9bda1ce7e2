/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - the hot job loop: no allocation, no lock and no system call but the engine's own. */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "hist.h"
#include "pattern.h"
#include "run.h"

#define MAX_REFUSALS 10000 /* in a row with nothing in flight: then the engine will never take it */

static inline bool halted(struct gpuio_worker *w)
{
	const uint32_t *stop = w->run->spec.stop;

	return (stop && __atomic_load_n(stop, __ATOMIC_RELAXED)) ||
	       atomic_load_explicit(&w->run->give_up, memory_order_relaxed) != 0;
}

static inline uint64_t flow_mark(struct gpuio_flow *f, uint64_t now)
{
	f->integral += f->level * ticks_between(f->last, now);
	f->last = now;
	return now;
}

static void flow_settle(struct gpuio_flow *f, uint64_t now, uint64_t integral)
{
	if (f->on && !f->over) {
		f->ticks = ticks_between(f->start, now);
		f->settled = integral;
	}
	f->over = true;
}

static void note_error(struct gpuio_tally *t, int error, int op, uint64_t offset)
{
	if (t->errors++ == 0) {
		t->first_error = error;
		t->first_error_op = op;
		t->first_error_offset = offset;
	}
}

static void check_read(struct gpuio_worker *w, const struct gpuio_io *io)
{
	struct gpuio_tally *t = &w->tally;
	uint64_t first;

	if (pattern_whole(io->length, io->offset) == 0)
		return;
	t->verified++;
	if (gpuio_pattern_check(io->buf, io->length, io->offset, w->run->spec.pattern_seed, &first) == 0)
		return;
	if (t->bad++ == 0)
		t->first_bad_offset = first;
}

static inline void complete(struct gpuio_worker *w, struct gpuio_io *io, uint64_t now)
{
	uint64_t lat = ticks_to_ns(&w->ticker, ticks_between(io->started, now));
	struct gpuio_tally *t = &w->tally;

	if (t->flow.on && !t->flow.over) {
		t->flow.ios++;
		t->flow.lat_ns += lat;
	}
	w->free[w->nfree++] = io;
	if (__builtin_expect(io->result != (int64_t)io->length, 0)) {
		if (io->result < 0)
			note_error(t, (int)io->result, io->op, io->offset);
		else
			t->short_ios++;
		return;
	}
	t->ios++;
	t->bytes += io->length;
	if (io->op == GPUIO_READ)
		t->reads++;
	else
		t->writes++;
	hist_add(&w->lat, lat);
	if (w->observable) {
		hist_add(&w->slat, ticks_to_ns(&w->ticker, ticks_between(io->started, io->submitted)));
		hist_add(&w->clat, ticks_to_ns(&w->ticker, ticks_between(io->submitted, now)));
	}
	if (w->run->spec.verify && io->op == GPUIO_READ && engine_moves_data(w->job.engine))
		check_read(w, io);
}

/* Draws up to n requests into w->batch; fewer when one of them makes a sync due. */
static unsigned prepare(struct gpuio_worker *w, unsigned n)
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
	uint64_t own = flow_mark(f, stamp(&w->ticker)), integral = f->integral, before;
	int taken;

	if (!f->on && issued + n >= w->run->spec.depth) {
		f->on = true;
		f->start = own;
		integral = f->integral = 0;
	}
	f->level += n;
	before = stamp(&w->ticker);
	for (unsigned i = 0; i < n; i++)
		ios[i]->started = before;
	taken = w->job.engine->submit(&w->job, ios, n);
	if (__builtin_expect(taken > (int)n, 0))
		taken = -EPROTO;
	if (w->observable) {
		uint64_t after = stamp(&w->ticker);

		for (int i = 0; i < taken; i++)
			ios[i]->submitted = after;
	}
	if (__builtin_expect(taken != (int)n, 0)) {
		unsigned refused;

		refused = taken < 0 ? n : n - (unsigned)taken;
		flow_mark(f, stamp(&w->ticker));
		f->level -= refused;
		f->integral -= refused * ticks_between(own, f->last); /* they were not in flight during the call */
	}
	if (f->level > f->max)
		f->max = f->level;
	if (taken == (int)n && issued + n == w->share)
		flow_settle(f, own, integral);
	return taken;
}

/* Reaps at least one request when there is one; 0 or -errno. */
static inline int harvest(struct gpuio_worker *w, unsigned min)
{
	struct gpuio_flow *f = &w->tally.flow;
	uint64_t now;
	int n;

	if (min > f->level)
		min = (unsigned)f->level;
	n = w->job.engine->reap(&w->job, w->done, min, w->run->spec.depth);
	if (n < 0)
		return n;
	if ((uint64_t)n > f->level)
		return -EPROTO;
	/* The counter's stamp comes first, as in offer: so both clocks see intervals of the same length. */
	flow_mark(f, stamp(&w->ticker));
	now = stamp(&w->ticker);
	for (int i = 0; i < n; i++)
		complete(w, w->done[i], now);
	f->level -= (unsigned)n;
	/* An engine that hands nothing back cannot be waited for past the deadline. */
	if (n == 0 && min > 0 && atomic_load_explicit(&w->run->give_up, memory_order_relaxed))
		return -ETIMEDOUT;
	return 0;
}

static void sync_file(struct gpuio_worker *w, int (*call)(int))
{
	struct gpuio_tally *t = &w->tally;
	uint64_t from;

	w->unsynced = 0;
	w->sync_due = false;
	if (!engine_moves_data(w->job.engine))
		return;
	from = mono_ns();
	if (call(w->run->spec.fd) != 0)
		note_error(t, -errno, GPUIO_WRITE, UINT64_MAX);
	t->sync_ns += mono_ns() - from;
	t->syncs++;
}

int gpuio_worker_loop(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_tally *t = &w->tally;
	uint64_t prepared = 0, issued = 0;
	unsigned waiting = 0, offered = 0, refusals = 0; /* batch[offered .. offered + waiting) is still to be taken */
	int broken = 0, rc;
	bool end = false;

	t->flow.last = stamp(&w->ticker);
	for (;;) {
		bool blocked = false;

		while (!end && !blocked) {
			if (!waiting) {
				uint64_t n = w->share - prepared;

				if (n > spec->submit_batch)
					n = spec->submit_batch;
				if (n > w->nfree)
					n = w->nfree;
				if (n == 0 || w->sync_due)
					break;
				waiting = prepare(w, (unsigned)n);
				prepared += waiting;
				offered = 0;
			}
			if (__builtin_expect(halted(w), 0)) {
				end = t->stopped = true;
				break;
			}
			rc = offer(w, w->batch + offered, waiting, issued);
			if (rc < 0) {
				broken = rc;
				end = true;
				break;
			}
			blocked = (unsigned)rc < waiting;
			issued += (unsigned)rc;
			offered += (unsigned)rc;
			waiting -= (unsigned)rc;
		}
		if (end && !t->flow.over) {
			flow_mark(&t->flow, stamp(&w->ticker));
			flow_settle(&t->flow, t->flow.last, t->flow.integral);
		}
		if (t->flow.level == 0) {
			if (end || (prepared == w->share && !waiting && !w->sync_due))
				break;
			if (w->sync_due && !waiting) {
				sync_file(w, fdatasync);
				continue;
			}
			/* Refused though nothing is in flight: somebody else holds what the engine needs. */
			if (++refusals >= MAX_REFUSALS)
				return -EAGAIN;
			sched_yield();
			continue;
		}
		refusals = 0;
		rc = harvest(w, spec->reap_batch);
		if (rc < 0)
			return broken ? broken : rc;
		if (t->errors >= GPUIO_MAX_ERRORS)
			end = true;
	}
	if (!broken && spec->sync == GPUIO_SYNC_END)
		sync_file(w, fsync);
	return broken;
}
