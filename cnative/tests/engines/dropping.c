/* SPDX-License-Identifier: Apache-2.0 */
/* Says that all data moved and moves none: what only verification can find. */
#include <errno.h>
#include <stdlib.h>

#include "gpuio.h"

static int dropping_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int dropping_open(struct gpuio_job *job)
{
	(void)job;
	return 0;
}

static int dropping_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	(void)n;
	ios[0]->result = ios[0]->length;
	job->priv = ios[0];
	return 1;
}

static int dropping_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)min;
	(void)max;
	done[0] = job->priv;
	return 1;
}

static void dropping_close(struct gpuio_job *job)
{
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine = {
	.name = "dropping",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC,
	.probe = dropping_probe,
	.open = dropping_open,
	.submit = dropping_submit,
	.reap = dropping_reap,
	.close = dropping_close,
};
