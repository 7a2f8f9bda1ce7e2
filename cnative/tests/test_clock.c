/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "clock.h"
#include "fixture.h"

static void sources(void)
{
	struct gpuio_clock clock;
	struct gpuio_why why;
	int rc;

	CHECK_EQ(gpuio_clock_init(&clock, GPUIO_CLOCK_MONOTONIC, &why), 0);
	CHECK_EQ(clock.source, GPUIO_CLOCK_MONOTONIC);
	CHECK(clock.ns_per_tick == 1.0);
	CHECK(clock.cost_ns > 0.0);
	CHECK(clock.resolution_ns >= 1);
	CHECK_EQ(gpuio_clock_init(&clock, 2, &why), -EINVAL);
	CHECK(mentions(&why, "clock source 2"));
	CHECK_EQ(gpuio_clock_init(&clock, -2, NULL), -EINVAL);
	rc = gpuio_clock_init(&clock, GPUIO_CLOCK_TSC, &why);
	if (rc) {
		CHECK_EQ(rc, -ENOTSUP);
		CHECK(mentions(&why, "TSC cannot be trusted"));
	} else {
		CHECK_EQ(clock.source, GPUIO_CLOCK_TSC);
	}
}

/* The scale against CLOCK_MONOTONIC over 200 ms, which calibration has not seen. */
static void scale(void)
{
	struct gpuio_clock clock;
	struct gpuio_ticker ticker;
	struct gpuio_clock_pair from, to;
	double ns;

	CHECK_EQ(gpuio_clock_init(&clock, -1, NULL), 0);
	ticker = gpuio_ticker_of(&clock);
	from = gpuio_clock_pair(&ticker);
	while (mono_ns() - from.ns < 200000000u)
		;
	to = gpuio_clock_pair(&ticker);
	ns = (double)ticks_to_ns(&ticker, to.ticks - from.ticks);
	CHECK(fabs(ns / (double)(to.ns - from.ns) - 1.0) < 1e-3);
	CHECK(gpuio_clock_ppm(&clock, from, to) < 1000.0);
	/* A clock whose scale is 1 % wrong must be seen as such. */
	if (clock.source == GPUIO_CLOCK_TSC) {
		clock.ns_per_tick *= 1.01;
		CHECK(gpuio_clock_ppm(&clock, from, to) > 8000.0);
	}
	CHECK_EQ(ticks_between(10, 5), 0);
	CHECK_EQ(ticks_between(5, 10), 5);
}

int main(void)
{
	sources();
	scale();
	return 0;
}
