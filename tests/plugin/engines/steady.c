/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steady.c - moves nothing and takes 2 ms a request by a clock that others' load does not slow: a request that was late is made up
 * for by the next ones. $GPUIO_TEST_DELAY=LENGTH:PERCENT makes requests of that length take so much longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gpuio.h"

#define SERVICE_NS 2000000u
/* Lateness that is made up for; a pause between two windows is longer, and is not. */
#define MOST_LATE_NS (3 * SERVICE_NS)

struct steady_state {
	struct gpuio_io *io;
	uint64_t due;
	unsigned length, percent;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int steady_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int steady_open(struct gpuio_job *job)
{
	struct steady_state *s = calloc(1, sizeof(*s));
	const char *delay = getenv("GPUIO_TEST_DELAY");

	if (!s)
		return -1;
	if (delay && sscanf(delay, "%u:%u", &s->length, &s->percent) != 2)
		s->length = 0;
	job->priv = s;
	return 0;
}

static int steady_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct steady_state *s = job->priv;
	uint64_t service = SERVICE_NS, start = now();
	struct timespec until;

	(void)n;
	s->io = ios[0];
	s->io->result = s->io->length;
	if (s->io->length == s->length)
		service += service * s->percent / 100;
	if (start > s->due + MOST_LATE_NS)
		s->due = start;
	s->due += service;
	until.tv_sec = (time_t)(s->due / 1000000000u);
	until.tv_nsec = (long)(s->due % 1000000000u);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
	return 1;
}

static int steady_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct steady_state *s = job->priv;

	(void)min;
	(void)max;
	if (!s->io)
		return 0;
	done[0] = s->io;
	s->io = NULL;
	return 1;
}

static void steady_close(struct gpuio_job *job)
{
	free(job->priv);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine = {
	.name = "steady",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC | GPUIO_ENGINE_NO_FILE,
	.probe = steady_probe,
	.open = steady_open,
	.submit = steady_submit,
	.reap = steady_reap,
	.close = steady_close,
};
