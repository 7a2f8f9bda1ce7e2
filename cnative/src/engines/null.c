/* SPDX-License-Identifier: Apache-2.0 */
/* null.c - moves no data and completes at once, in order: what is left is the cost of the job loop. */
#include <errno.h>
#include <stdlib.h>

#include "registry.h"

/* Requests taken and not yet reaped, oldest first; never more than depth. */
struct null_state {
	unsigned head, count, size;
	struct gpuio_io *queue[];
};

static int null_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int null_open(struct gpuio_job *job)
{
	unsigned size = job->spec->depth;
	struct null_state *s = calloc(1, sizeof(*s) + size * sizeof(s->queue[0]));

	if (!s)
		return -ENOMEM;
	s->size = size;
	job->priv = s;
	return 0;
}

static int null_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct null_state *s = job->priv;

	for (unsigned i = 0; i < n; i++) {
		unsigned tail = s->head + s->count;

		ios[i]->result = ios[i]->length;
		s->queue[tail < s->size ? tail : tail - s->size] = ios[i];
		s->count++;
	}
	return (int)n;
}

static int null_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct null_state *s = job->priv;
	unsigned n = s->count < max ? s->count : max;

	(void)min;
	for (unsigned i = 0; i < n; i++) {
		done[i] = s->queue[s->head];
		if (++s->head == s->size)
			s->head = 0;
	}
	s->count -= n;
	return (int)n;
}

static void null_close(struct gpuio_job *job)
{
	free(job->priv);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_null = {
	.name = "null",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_NO_FILE,
	.probe = null_probe,
	.open = null_open,
	.submit = null_submit,
	.reap = null_reap,
	.close = null_close,
};
