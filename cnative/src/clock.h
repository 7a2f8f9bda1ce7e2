/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - stamps and their scale, inlined into the job loop. */
#ifndef GPUIO_CLOCK_H
#define GPUIO_CLOCK_H

#include <stdbool.h>
#include <time.h>

#include "gpuio.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define GPUIO_HAS_TSC 1
#else
#define GPUIO_HAS_TSC 0
#endif

struct gpuio_ticker {
	bool tsc;
	uint64_t mult; /* ns per tick, 32.32 fixed point */
};

static inline uint64_t mono_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t stamp(const struct gpuio_ticker *ticker)
{
#if GPUIO_HAS_TSC
	/* No fence: it would cost more than the few ns by which the CPU may reorder the read. */
	if (ticker->tsc)
		return __rdtsc();
#endif
	(void)ticker;
	return mono_ns();
}

/* Ticks between two stamps; never negative, though unpinned threads may meet a CPU whose counter lags a little. */
static inline uint64_t ticks_between(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

static inline uint64_t ticks_to_ns(const struct gpuio_ticker *ticker, uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * ticker->mult) >> 32);
}

/* A CLOCK_MONOTONIC reading and the stamp taken at the same moment, to a few tens of nanoseconds. */
struct gpuio_clock_pair {
	uint64_t ns;
	uint64_t ticks;
};

struct gpuio_ticker gpuio_ticker_of(const struct gpuio_clock *clock);
struct gpuio_clock_pair gpuio_clock_pair(const struct gpuio_ticker *ticker);
/* How far the scale in use is off between two pairs, in parts per million; 0 for CLOCK_MONOTONIC. */
double gpuio_clock_ppm(const struct gpuio_clock *clock, struct gpuio_clock_pair from, struct gpuio_clock_pair to);

#endif
