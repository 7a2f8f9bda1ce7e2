/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a diary: the order in which requests begin and end, each named by offset / 4096 of its file. Moves no data. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "gpuio.h"

#define PLACES 65536

struct recorder_entry {
	atomic_uint began, ended, times; /* numbers from 1; how often it was asked for */
};

struct recorder_entry recorder_diary[PLACES];
atomic_uint recorder_clock;

static int recorder_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int recorder_open(struct gpuio_job *job)
{
	job->priv = NULL;
	return 0;
}

static void take_a_while(unsigned seed)
{
	struct timespec t = {.tv_sec = 0, .tv_nsec = (long)(seed * 2654435761u >> 16) % 60000};

	nanosleep(&t, NULL);
}

static int recorder_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct recorder_entry *e = &recorder_diary[ios[0]->offset / 4096 % PLACES];

	(void)n;
	atomic_store(&e->began, atomic_fetch_add(&recorder_clock, 1) + 1);
	take_a_while((unsigned)(ios[0]->offset / 4096) + 1);
	atomic_fetch_add(&e->times, 1);
	atomic_store(&e->ended, atomic_fetch_add(&recorder_clock, 1) + 1);
	ios[0]->result = ios[0]->length;
	job->priv = ios[0];
	return 1;
}

static int recorder_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)min;
	if (!job->priv || max == 0)
		return 0;
	done[0] = job->priv;
	job->priv = NULL;
	return 1;
}

static void recorder_close(struct gpuio_job *job)
{
	(void)job;
}

const struct gpuio_engine gpuio_engine = {
	.name = "recorder",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC | GPUIO_ENGINE_NO_FILE,
	.probe = recorder_probe,
	.open = recorder_open,
	.submit = recorder_submit,
	.reap = recorder_reap,
	.close = recorder_close,
};
