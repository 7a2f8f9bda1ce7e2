/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steady.c - moves nothing and takes 2 ms a request by a clock that others' load does not slow: it sleeps until a request is over,
 * is woken before others where it may, and what was late all the same is made up for by the next requests.
 * $GPUIO_TEST_DELAY=LENGTH:PERCENT makes requests of that length take so much longer.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "gpuio.h"

#define SERVICE_NS 2000000u

struct steady_state {
	struct gpuio_io *io;
	uint64_t due;
	long waits; /* of this thread, when it left the last request */
	unsigned length, percent;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How often this thread waited of its own accord: between two requests of a window it does not, between two windows it does. */
static long waits(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
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
	/* Refused without the right to; then it is as late as everybody else. */
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
	return 0;
}

static int steady_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct steady_state *s = job->priv;
	uint64_t service = SERVICE_NS;
	struct timespec until;

	(void)n;
	s->io = ios[0];
	s->io->result = s->io->length;
	if (s->io->length == s->length)
		service += service * s->percent / 100;
	if (!s->due || waits() != s->waits)
		s->due = now();
	s->due += service;
	until.tv_sec = (time_t)(s->due / 1000000000u);
	until.tv_nsec = (long)(s->due % 1000000000u);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
	s->waits = waits();
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
