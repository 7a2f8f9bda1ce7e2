/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - requests in flight over time, counted apart from the latencies, which must not vouch for themselves. */
#ifndef GPUIO_FLOW_H
#define GPUIO_FLOW_H

#include <stdbool.h>

#include "clock.h"

struct gpuio_flow {
	uint64_t level, max;
	uint64_t last, integral;         /* ticks; requests x ticks since `start` */
	uint64_t start, ticks, settled;  /* the steady stretch: from, length, its integral */
	uint64_t ios, lat_ns;            /* completions before it, and the sum of their latencies */
	uint64_t steady_ios, steady_lat_ns; /* the same inside it */
	bool on, over;
};

/* Brings the integral up to `now`. */
static inline void flow_mark(struct gpuio_flow *f, uint64_t now)
{
	f->integral += f->level * ticks_between(f->last, now);
	f->last = now;
}

/* The steady stretch begins with `now`; ios and lat_ns are what the window has counted so far. */
static inline void flow_begin(struct gpuio_flow *f, uint64_t now, uint64_t ios, uint64_t lat_ns)
{
	f->on = true;
	f->start = now;
	f->integral = 0;
	f->ios = ios;
	f->lat_ns = lat_ns;
}

/* It ended with the last mark. */
static inline void flow_settle(struct gpuio_flow *f, uint64_t ios, uint64_t lat_ns)
{
	if (f->over || !f->on)
		return;
	f->over = true;
	f->ticks = ticks_between(f->start, f->last);
	f->settled = f->integral;
	f->steady_ios = ios - f->ios;
	f->steady_lat_ns = lat_ns - f->lat_ns;
}

/* Nothing was in flight since the last mark, and nothing was meant to be: that time is not part of the stretch. */
static inline void flow_leave_out(struct gpuio_flow *f, uint64_t now)
{
	f->start += ticks_between(f->last, now);
	f->last = now;
}

#endif
