/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - when an open loop's requests are due, and how the next one is waited for. */
#ifndef GPUIO_SCHEDULE_H
#define GPUIO_SCHEDULE_H

#include <time.h>

#include "steps.h"

/* The longest time without a look at the stop flag and the window's deadline. */
#define LONGEST_REST_NS UINT64_C(50000000)
#define NAP_NS 20000u /* between two looks, for engines that cannot wait until a deadline */

/* Intended start of this worker's request number i, in ticks. Each is computed from the window's start: no error adds up. */
static inline uint64_t intended(const struct gpuio_worker *w, uint64_t i)
{
	const struct gpuio_spec *spec = &w->run->spec;
	uint64_t ns = spec->arrivals[w->job.worker + i * spec->jobs];

	return w->run->start_ticks + (uint64_t)((double)ns * w->ticks_per_ns);
}

static inline uint64_t rest_until(const struct gpuio_worker *w, uint64_t target)
{
	uint64_t left = ticks_to_ns(&w->ticker, ticks_between(stamp(&w->ticker), target));

	return mono_ns() + (left < LONGEST_REST_NS ? left : LONGEST_REST_NS);
}

static inline void sleep_until(uint64_t ns)
{
	struct timespec until = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Waits for a completion, but not past the time `target`; how many there were, or -errno. */
static inline int wait_for_either(struct gpuio_worker *w, uint64_t target)
{
	const struct gpuio_engine *engine = w->job.engine;
	uint64_t until = rest_until(w, target), nap;
	int n;

	if (engine->wait) {
		begin_reaping(w);
		return take_over(w, engine->wait(&w->job, w->done, w->run->spec.depth, until));
	}
	n = harvest(w, 0);
	nap = mono_ns() + NAP_NS;
	if (n == 0)
		sleep_until(nap < until ? nap : until);
	return n;
}

#endif
