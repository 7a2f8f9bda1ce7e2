/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that keeps its own record: each request takes $CLOCKWORK_US in submit, each sync 30 times as long, and when they
 * began by CLOCK_MONOTONIC is exported. One job. */
#include <stdlib.h>
#include <time.h>

#include "gpuio.h"

#define MOST 4096

uint64_t clockwork_began[MOST];
unsigned clockwork_count;

static struct gpuio_io *finished;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pass(unsigned times)
{
	const char *us = getenv("CLOCKWORK_US");
	uint64_t until = now_ns() + times * 1000u * (uint64_t)(us ? atol(us) : 0);

	while (now_ns() < until)
		;
}

static int clockwork_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int clockwork_open(struct gpuio_job *job)
{
	(void)job;
	clockwork_count = 0;
	finished = NULL;
	return 0;
}

static int clockwork_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	(void)job;
	(void)n;
	if (clockwork_count < MOST)
		clockwork_began[clockwork_count++] = now_ns();
	pass(1);
	ios[0]->result = ios[0]->length;
	finished = ios[0];
	return 1;
}

static int clockwork_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)job;
	(void)min;
	(void)max;
	if (!finished)
		return 0;
	done[0] = finished;
	finished = NULL;
	return 1;
}

static void clockwork_close(struct gpuio_job *job)
{
	(void)job;
}

static int clockwork_sync(struct gpuio_job *job, uint16_t file, int fd, int whole)
{
	(void)job;
	(void)file;
	(void)fd;
	(void)whole;
	pass(30);
	return 0;
}

const struct gpuio_engine gpuio_engine = {
	.name = "clockwork",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC,
	.probe = clockwork_probe,
	.open = clockwork_open,
	.submit = clockwork_submit,
	.reap = clockwork_reap,
	.close = clockwork_close,
	.sync = clockwork_sync,
};
