/* SPDX-License-Identifier: Apache-2.0 */
/* Claims the name of a built-in engine. */
#include <errno.h>
#include <stdlib.h>

#include "gpuio.h"

static int taken_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int taken_open(struct gpuio_job *job)
{
	(void)job;
	return 0;
}

static int taken_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	(void)n;
	ios[0]->result = ios[0]->length;
	job->priv = ios[0];
	return 1;
}

static int taken_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)min;
	(void)max;
	done[0] = job->priv;
	return 1;
}

static void taken_close(struct gpuio_job *job)
{
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine = {
	.name = "psync",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC,
	.probe = taken_probe,
	.open = taken_open,
	.submit = taken_submit,
	.reap = taken_reap,
	.close = taken_close,
};
