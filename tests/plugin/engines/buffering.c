/* SPDX-License-Identifier: Apache-2.0 */
/* buffering.c - an engine that quietly takes O_DIRECT off the file it was given, as a file system may. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "gpuio.h"

static int buffering_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int buffering_open(struct gpuio_job *job)
{
	int flags = fcntl(job->spec->fd, F_GETFL);

	job->priv = NULL;
	return fcntl(job->spec->fd, F_SETFL, flags & ~O_DIRECT) == 0 ? 0 : -errno;
}

static int buffering_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	(void)n;
	ios[0]->result = pread(job->spec->fd, ios[0]->buf, ios[0]->length, (off_t)ios[0]->offset);
	job->priv = ios[0];
	return 1;
}

static int buffering_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)min;
	(void)max;
	if (!job->priv)
		return 0;
	done[0] = job->priv;
	job->priv = NULL;
	return 1;
}

static void buffering_close(struct gpuio_job *job)
{
	(void)job;
}

const struct gpuio_engine gpuio_engine = {
	.name = "buffering",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC,
	.probe = buffering_probe,
	.open = buffering_open,
	.submit = buffering_submit,
	.reap = buffering_reap,
	.close = buffering_close,
};
