/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slowing.c - moves nothing and takes 20 us a request; from $GPUIO_TEST_SLOW_AFTER_MS after the first one on, 40 us, as a drive
 * does that gets too hot.
 */
#include <stdlib.h>
#include <time.h>

#include "gpuio.h"

struct slowing_state {
	struct gpuio_io *io;
	uint64_t first, after;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int slowing_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int slowing_open(struct gpuio_job *job)
{
	struct slowing_state *s = calloc(1, sizeof(*s));
	const char *after = getenv("GPUIO_TEST_SLOW_AFTER_MS");

	if (!s)
		return -1;
	s->after = after ? strtoull(after, NULL, 10) * 1000000u : UINT64_MAX;
	job->priv = s;
	return 0;
}

static int slowing_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct slowing_state *s = job->priv;
	uint64_t start = now();

	(void)n;
	if (!s->first)
		s->first = start;
	s->io = ios[0];
	s->io->result = s->io->length;
	while (now() - start < (start - s->first >= s->after ? 40000u : 20000u))
		;
	return 1;
}

static int slowing_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct slowing_state *s = job->priv;

	(void)min;
	(void)max;
	if (!s->io)
		return 0;
	done[0] = s->io;
	s->io = NULL;
	return 1;
}

static void slowing_close(struct gpuio_job *job)
{
	free(job->priv);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine = {
	.name = "slowing",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC | GPUIO_ENGINE_NO_FILE,
	.probe = slowing_probe,
	.open = slowing_open,
	.submit = slowing_submit,
	.reap = slowing_reap,
	.close = slowing_close,
};
