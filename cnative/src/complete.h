/* SPDX-License-Identifier: Apache-2.0 */
/* complete.h - how requests that have ended are counted, inlined into the job loops through steps.h. */
#ifndef GPUIO_COMPLETE_H
#define GPUIO_COMPLETE_H

#include "hist.h"
#include "run.h"

/* loop.c */
void gpuio_note_error(struct gpuio_tally *t, int error, int op, uint64_t offset);
void gpuio_check_read(struct gpuio_worker *w, const struct gpuio_io *io);

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

/* Requests sent one at a time (offer_chained), each with stamps of its own: reads, none of which is to be looked at. */
static inline void complete_chained(struct gpuio_worker *w, unsigned n, uint64_t now)
{
	struct gpuio_io **free = w->free + w->nfree;
	struct gpuio_part lat = part_empty(), slat = part_empty(), clat = part_empty();
	uint64_t good = 0;

	for (unsigned i = 0; i < n; i++) {
		struct gpuio_io *io = free[i] = w->done[i];

		if (__builtin_expect(io->result != (int64_t)io->length, 0)) {
			count_bad(&w->tally, io);
			continue;
		}
		good++;
		part_add(&lat, &w->lat, ticks_to_ns(&w->ticker, ticks_between(io->started, now)));
		part_add(&slat, &w->slat, ticks_to_ns(&w->ticker, ticks_between(io->started, io->submitted)));
		part_add(&clat, &w->clat, ticks_to_ns(&w->ticker, ticks_between(io->submitted, now)));
	}
	part_end(&lat, &w->lat, good);
	part_end(&slat, &w->slat, good);
	part_end(&clat, &w->clat, good);
	w->nfree += n;
	w->tally.ios += good;
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

/* In the way of the usual case there is; false = it is none, and nothing was counted. */
static inline bool complete(struct gpuio_worker *w, unsigned n, uint64_t now)
{
	if (w->uniform)
		return complete_uniform(w, n, now);
	if (w->coarse && !w->merged) {
		complete_chained(w, n, now);
		return true;
	}
	return n >= 2 && !w->scheduled && !w->verifies && complete_alike(w, n, now);
}

#endif
