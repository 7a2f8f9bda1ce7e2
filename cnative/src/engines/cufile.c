/* SPDX-License-Identifier: Apache-2.0 */
/* cufile.c - cuFileRead and cuFileWrite, one at a time. */
#include "engines/cufile.h"

#include <errno.h>
#include <stdlib.h>

#include "registry.h"

struct cufile_state {
	struct cufile_target target;
	struct gpuio_io *done; /* the request that is over and waits to be reaped */
};

static int cufile_open(struct gpuio_job *job)
{
	struct cufile_state *s = calloc(1, sizeof(*s));

	job->priv = s;
	return s ? gpuio_cufile_target_open(&s->target, job) : -ENOMEM;
}

static int cufile_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct cufile_state *s = job->priv;
	const struct cufile_target *t = &s->target;
	struct gpuio_io *io = ios[0];
	off_t at = (off_t)io->offset;
	ssize_t moved;

	(void)n; /* depth is 1 */
	errno = 0;
	if (io->op == GPUIO_READ)
		moved = t->lib.read(t->file, io->buf, io->length, at, 0);
	else
		moved = t->lib.write(t->file, io->buf, io->length, at, 0);
	io->result = cufile_result(moved, errno);
	s->done = io;
	return 1;
}

static int cufile_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct cufile_state *s = job->priv;

	(void)min;
	if (!s->done || max == 0)
		return 0;
	done[0] = s->done;
	s->done = NULL;
	return 1;
}

static void cufile_close(struct gpuio_job *job)
{
	struct cufile_state *s = job->priv;

	if (!s)
		return;
	gpuio_cufile_target_close(&s->target);
	free(s);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_cufile = {
	.name = "cufile",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC | GPUIO_ENGINE_NEEDS_GPU | GPUIO_ENGINE_FIXED_BUFFERS,
	.probe = gpuio_cufile_probe,
	.open = cufile_open,
	.submit = cufile_submit,
	.reap = cufile_reap,
	.close = cufile_close,
};
