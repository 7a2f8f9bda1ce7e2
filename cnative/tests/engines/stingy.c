/* SPDX-License-Identifier: Apache-2.0 */
/* Back-pressure: takes at most two requests at a time and has room for three; priv of a request proves it is kept. */
#include <errno.h>
#include <stdlib.h>

#include "gpuio.h"

#define ROOM 3

struct state {
	struct gpuio_io *queue[ROOM];
	unsigned count;
};

static int stingy_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int stingy_open(struct gpuio_job *job)
{
	job->priv = calloc(1, sizeof(struct state));
	job->effective |= job->spec->knobs & GPUIO_KNOB_MERGED_WAIT; /* submit may well be said to only queue */
	return job->priv ? 0 : -ENOMEM;
}

static int stingy_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct state *s = job->priv;
	unsigned k = 0;

	while (k < n && k < 2 && s->count < ROOM) {
		ios[k]->result = ios[k]->length;
		s->queue[s->count++] = ios[k++];
	}
	return (int)k;
}

static int stingy_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct state *s = job->priv;
	unsigned n = 0;

	while (n < max && n < min && s->count > 0)
		done[n++] = s->queue[--s->count];
	return (int)n;
}

static void stingy_close(struct gpuio_job *job)
{
	free(job->priv);
}

const struct gpuio_engine gpuio_engine = {
	.name = "stingy",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_NO_FILE,
	.probe = stingy_probe,
	.open = stingy_open,
	.submit = stingy_submit,
	.reap = stingy_reap,
	.close = stingy_close,
};
