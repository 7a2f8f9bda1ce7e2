/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of every other slot last 2 ms, the others 6 ms, so that queues are never emptied at once; adds up by a clock of its own
 * how long they were out. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "gpuio.h"

#define SLOTS 64

struct state {
	struct gpuio_io *out[SLOTS];
	uint64_t began[SLOTS];
	unsigned count;
	bool merged;
};

uint64_t uneven_sum_ns;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int uneven_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int uneven_open(struct gpuio_job *job)
{
	struct state *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->merged = job->spec->knobs & GPUIO_KNOB_MERGED_WAIT;
	job->effective |= job->spec->knobs & GPUIO_KNOB_MERGED_WAIT;
	job->priv = s;
	return 0;
}

static int uneven_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct state *s = job->priv;
	unsigned k = 0;

	while (k < n && s->count < SLOTS) {
		s->began[s->count] = s->merged ? 0 : now_ns(); /* merged: it begins with the next reap */
		s->out[s->count++] = ios[k++];
	}
	return (int)k;
}

static uint64_t lasts_ns(const struct gpuio_io *io)
{
	return io->index % 2 ? 6000000 : 2000000;
}

static int uneven_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct state *s = job->priv;
	struct timespec nap = {.tv_sec = 0, .tv_nsec = 100000};
	uint64_t now = now_ns(), began = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < s->count; i++)
		if (s->began[i] == 0)
			s->began[i] = now;
	for (;;) {
		now = now_ns();
		for (unsigned i = 0; i < s->count && n < max;) {
			if (now - s->began[i] < lasts_ns(s->out[i])) {
				i++;
				continue;
			}
			began += s->began[i];
			s->out[i]->result = s->out[i]->length;
			done[n++] = s->out[i];
			s->out[i] = s->out[--s->count];
			s->began[i] = s->began[s->count];
		}
		if (n >= min) {
			uneven_sum_ns += n * now_ns() - began;
			return (int)n;
		}
		nanosleep(&nap, NULL);
	}
}

static void uneven_close(struct gpuio_job *job)
{
	free(job->priv);
}

const struct gpuio_engine gpuio_engine = {
	.name = "uneven",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_NO_FILE,
	.probe = uneven_probe,
	.open = uneven_open,
	.submit = uneven_submit,
	.reap = uneven_reap,
	.close = uneven_close,
};
