/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "why.h"

#if GPUIO_HAS_TSC
#include <cpuid.h>
#endif

#define CALIBRATION_NS 10000000u
#define PAIR_TRIES 16
#define COST_STAMPS 250
#define COST_BATCHES 8
#define STEP_STAMPS 4000000 /* some 100 ms: longer than a tick of any kernel */
#define NEVER_STEPPED UINT64_C(1000000000) /* what a clock that stood still all that time is said to resolve */

/* NULL when stamps may be taken from the TSC, else the reason why not. */
static const char *tsc_doubt(char *scratch, size_t size)
{
#if GPUIO_HAS_TSC
	static const char path[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
	unsigned a, b, c, d = 0;
	char name[32] = "";
	FILE *f;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & (1u << 8)))
		return "this CPU does not promise an invariant TSC";
	f = fopen(path, "re");
	if (!f)
		return "the kernel's clocksource cannot be read";
	if (fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = '\0';
	fclose(f);
	if (strcmp(name, "tsc") == 0)
		return NULL;
	snprintf(scratch, size, "the kernel's clocksource is %s, not tsc", name);
	return scratch;
#else
	(void)scratch;
	(void)size;
	return "this build is not for x86-64";
#endif
}

struct gpuio_ticker gpuio_ticker_of(const struct gpuio_clock *clock)
{
	struct gpuio_ticker ticker = {.tsc = clock->source == GPUIO_CLOCK_TSC, .mult = UINT64_C(1) << 32};

	if (ticker.tsc)
		ticker.mult = (uint64_t)llround(clock->ns_per_tick * 4294967296.0);
	return ticker;
}

struct gpuio_clock_pair gpuio_clock_pair(const struct gpuio_ticker *ticker)
{
	struct gpuio_clock_pair best = {0, 0};
	uint64_t narrowest = UINT64_MAX;

	/* The narrowest of several brackets: an interrupt between the three reads would shift the pair. */
	for (int i = 0; i < PAIR_TRIES; i++) {
		uint64_t before = stamp(ticker);
		uint64_t ns = mono_ns();
		uint64_t width = ticks_between(before, stamp(ticker));

		if (width < narrowest) {
			narrowest = width;
			best.ns = ns;
			best.ticks = before + width / 2;
		}
	}
	return best;
}

double gpuio_clock_ppm(const struct gpuio_clock *clock, struct gpuio_clock_pair from, struct gpuio_clock_pair to)
{
	double ticks = (double)ticks_between(from.ticks, to.ticks);

	if (clock->source != GPUIO_CLOCK_TSC || ticks <= 0.0)
		return 0.0;
	return fabs((double)(to.ns - from.ns) / ticks / clock->ns_per_tick - 1.0) * 1e6;
}

static void calibrate(struct gpuio_clock *clock)
{
	struct gpuio_ticker ticker = {.tsc = true, .mult = UINT64_C(1) << 32};
	struct gpuio_clock_pair from = gpuio_clock_pair(&ticker), to;

	while (mono_ns() - from.ns < CALIBRATION_NS)
		;
	to = gpuio_clock_pair(&ticker);
	clock->ns_per_tick = (double)(to.ns - from.ns) / (double)(to.ticks - from.ticks);
}

static uint64_t smaller_step(uint64_t step, uint64_t last, uint64_t now)
{
	return now > last && now - last < step ? now - last : step;
}

static void measure_stamp(struct gpuio_clock *clock)
{
	struct gpuio_ticker ticker = gpuio_ticker_of(clock);
	uint64_t first = stamp(&ticker), last = first, step = UINT64_MAX, cheapest = UINT64_MAX;
	unsigned stamps = 0;

	/* The cheapest of several batches: one that was interrupted tells the interrupt's cost. */
	for (int batch = 0; batch < COST_BATCHES; batch++) {
		uint64_t from = last;

		for (int i = 0; i < COST_STAMPS; i++) {
			uint64_t now = stamp(&ticker);

			step = smaller_step(step, last, now);
			last = now;
		}
		if (last - from < cheapest)
			cheapest = last - from;
		stamps += COST_STAMPS;
	}
	clock->cost_ns = (double)ticks_to_ns(&ticker, cheapest) / COST_STAMPS;
	/* A clock that did not move in all of them is coarse: how coarse shows when it does. */
	while (step == UINT64_MAX && stamps < STEP_STAMPS) {
		uint64_t now = stamp(&ticker);

		step = smaller_step(step, last, now);
		last = now;
		stamps++;
	}
	if (cheapest == 0)
		clock->cost_ns = (double)ticks_to_ns(&ticker, ticks_between(first, last)) / stamps;
	clock->resolution_ns = step == UINT64_MAX ? NEVER_STEPPED : ticks_to_ns(&ticker, step);
	if (clock->resolution_ns == 0)
		clock->resolution_ns = 1;
}

int gpuio_clock_init(struct gpuio_clock *clock, int force, struct gpuio_why *why)
{
	char scratch[96];
	const char *doubt;

	gpuio_say(why, "%s", "");
	if (force < -1 || force > GPUIO_CLOCK_TSC) {
		gpuio_say(why, "clock source %d is not known: use -1 (choose), 0 (CLOCK_MONOTONIC) or 1 (TSC)", force);
		return -EINVAL;
	}
	doubt = tsc_doubt(scratch, sizeof(scratch));
	if (force == GPUIO_CLOCK_TSC && doubt) {
		gpuio_say(why, "the TSC cannot be trusted (%s): use CLOCK_MONOTONIC", doubt);
		return -ENOTSUP;
	}
	clock->source = force == GPUIO_CLOCK_MONOTONIC || doubt ? GPUIO_CLOCK_MONOTONIC : GPUIO_CLOCK_TSC;
	clock->ns_per_tick = 1.0;
	if (clock->source == GPUIO_CLOCK_TSC)
		calibrate(clock);
	measure_stamp(clock);
	return 0;
}
