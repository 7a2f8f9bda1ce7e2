/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks where $BROKEN_AT says: "open", "submit" or "reap"; "never" takes no request at all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuio.h"

static int breaks(const char *where)
{
	const char *at = getenv("BROKEN_AT");

	return at && strcmp(at, where) == 0;
}

static int broken_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	snprintf(why->text, sizeof(why->text), "the device is broken: buy another");
	return -ENODEV;
}

static int broken_open(struct gpuio_job *job)
{
	if (breaks("open")) {
		snprintf(job->why.text, sizeof(job->why.text), "job %u finds no device", job->worker);
		return -ENODEV;
	}
	return breaks("silently") ? -ENXIO : 0;
}

static int broken_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	if (breaks("submit"))
		return -ENODEV;
	if (breaks("never"))
		return 0;
	if (breaks("greedy"))
		return (int)n + 1;
	ios[0]->result = ios[0]->length;
	job->priv = ios[0];
	return 1;
}

static int broken_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)min;
	(void)max;
	if (breaks("reap"))
		return -EIO;
	done[0] = job->priv;
	return 1;
}

static void broken_close(struct gpuio_job *job)
{
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine = {
	.name = "broken",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_NO_FILE,
	.probe = broken_probe,
	.open = broken_open,
	.submit = broken_submit,
	.reap = broken_reap,
	.close = broken_close,
};
