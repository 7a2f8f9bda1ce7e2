/* SPDX-License-Identifier: Apache-2.0 */
/* A device that stops answering: its second worker sleeps in reap for $SLEEPING_MS at the 5th request. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "gpuio.h"

struct state {
	struct gpuio_io *io;
	unsigned served;
};

static int sleeping_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int sleeping_open(struct gpuio_job *job)
{
	job->priv = calloc(1, sizeof(struct state));
	return job->priv ? 0 : -ENOMEM;
}

static int sleeping_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct state *s = job->priv;

	(void)n;
	ios[0]->result = ios[0]->length;
	s->io = ios[0];
	return 1;
}

static int sleeping_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct state *s = job->priv;

	(void)min;
	(void)max;
	if (++s->served == 5 && job->worker == 1) {
		const char *ms = getenv("SLEEPING_MS");
		long left = ms ? atol(ms) : 0;
		struct timespec t = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};

		nanosleep(&t, NULL);
	}
	done[0] = s->io;
	return 1;
}

static void sleeping_close(struct gpuio_job *job)
{
	free(job->priv);
}

const struct gpuio_engine gpuio_engine = {
	.name = "sleeping",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC | GPUIO_ENGINE_NO_FILE,
	.probe = sleeping_probe,
	.open = sleeping_open,
	.submit = sleeping_submit,
	.reap = sleeping_reap,
	.close = sleeping_close,
};
