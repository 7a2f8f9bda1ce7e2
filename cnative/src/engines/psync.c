/* SPDX-License-Identifier: Apache-2.0 */
/* psync.c - pread and pwrite, one at a time. */
#include <errno.h>
#include <unistd.h>

#include "registry.h"

static int psync_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int psync_open(struct gpuio_job *job)
{
	job->priv = NULL; /* the request that is done and waits to be reaped */
	return 0;
}

static int psync_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct gpuio_io *io = ios[0];
	int fd = io->fd;
	ssize_t moved;

	(void)n; /* depth is 1 */
	do {
		if (io->op == GPUIO_READ)
			moved = pread(fd, io->buf, io->length, (off_t)io->offset);
		else
			moved = pwrite(fd, io->buf, io->length, (off_t)io->offset);
	} while (moved < 0 && errno == EINTR);
	io->result = moved < 0 ? -errno : moved;
	job->priv = io;
	return 1;
}

static int psync_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)min;
	if (!job->priv || max == 0)
		return 0;
	done[0] = job->priv;
	job->priv = NULL;
	return 1;
}

static void psync_close(struct gpuio_job *job)
{
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_psync = {
	.name = "psync",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC,
	.probe = psync_probe,
	.open = psync_open,
	.submit = psync_submit,
	.reap = psync_reap,
	.close = psync_close,
};
