/* SPDX-License-Identifier: Apache-2.0 */
/* arrivals.c - the open loop: requests begin when the schedule says, however long the ones before them take. */
#include <errno.h>
#include <sched.h>

#include "schedule.h"

/* Draws what is due at `now`, at most a batch and as many as have a slot. */
static unsigned draw_due(struct gpuio_worker *w, uint64_t now, uint64_t prepared)
{
	uint64_t most = w->share - prepared;
	unsigned n = 0;

	if (most > w->run->spec.submit_batch)
		most = w->run->spec.submit_batch;
	if (most > w->nfree)
		most = w->nfree;
	while (n < most && intended(w, prepared + n) <= now)
		n++;
	n = prepare(w, n);
	for (unsigned i = 0; i < n; i++)
		w->batch[w->nqueued + i]->intended = intended(w, prepared + i);
	return n;
}

int gpuio_open_loop(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_tally *t = &w->tally;
	bool spins = spec->arrival_wait == GPUIO_WAIT_SPIN;
	uint64_t prepared = 0;
	unsigned waiting = 0, offered = 0, refusals = 0; /* batch[offered .. offered + waiting) is still to be taken */
	bool end = false;
	int broken = 0, rc;

	for (;;) {
		bool blocked = false, all;

		if (__builtin_expect(!end && halted(w), 0))
			end = t->stopped = true;
		while (!end && !blocked) {
			if (!waiting) {
				if (prepared == w->share || w->nfree == 0 || w->sync_due)
					break;
				waiting = draw_due(w, stamp(&w->ticker), prepared);
				if (!waiting)
					break;
				prepared += waiting;
				offered = w->nqueued;
			}
			rc = offer(w, w->batch + offered, waiting);
			if (__builtin_expect(rc < 0, 0)) {
				broken = rc;
				end = true;
				break;
			}
			blocked = (unsigned)rc < waiting;
			offered += (unsigned)rc;
			waiting -= (unsigned)rc;
			if (w->synchronous) /* it has ended: its time must not run on while the next one is sent */
				break;
		}
		if (__builtin_expect(end, 0) && !t->flow.over) {
			flow_mark(&t->flow, stamp(&w->ticker));
			settle(w);
		}
		all = prepared == w->share && !waiting;
		if (outstanding(w) == 0) {
			if (end || (all && !w->sync_due))
				break;
			if (w->sync_due && !waiting) {
				gpuio_sync_file(w, false);
			} else if (waiting) { /* refused though nothing is in flight */
				if (++refusals >= MAX_REFUSALS)
					return -EAGAIN;
				sched_yield();
			} else if (!spins) {
				sleep_until(rest_until(w, intended(w, prepared)));
			}
			continue;
		}
		refusals = 0;
		if (end || w->synchronous)
			rc = harvest(w, 1);
		else if (spins)
			rc = harvest(w, 0);
		else if (all || waiting || w->nfree == 0 || w->sync_due) /* only a completion can change anything */
			rc = harvest(w, 1);
		else
			rc = wait_for_either(w, intended(w, prepared));
		if (__builtin_expect(rc < 0, 0))
			return broken ? broken : rc;
		if (__builtin_expect(t->errors >= GPUIO_MAX_ERRORS, 0))
			end = true;
	}
	return broken;
}
