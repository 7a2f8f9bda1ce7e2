/* SPDX-License-Identifier: Apache-2.0 */
/* mmap.c - the file mapped into memory: a read copies out of the map, a write into it, page faults do the I/O. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engines/mapped.h"
#include "engines/sigbus.h"
#include "registry.h"
#include "why.h"

static int mmap_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int mmap_open(struct gpuio_job *job)
{
	struct gpuio_mapped *m = calloc(1, sizeof(*m));
	int rc;

	job->priv = m;
	if (!m)
		return -ENOMEM;
	rc = gpuio_mapped_prepare(job, m, 0, (uint64_t)sysconf(_SC_PAGESIZE));
	if (rc)
		return rc;
	rc = gpuio_mapped_map(job, m, MAP_SHARED);
	if (rc)
		return gpuio_mapped_refused(job, m, -rc);
	/* Sequential reads ahead far and drops behind; random reads no page more than is touched. */
	if (madvise(m->map, m->bytes, job->spec->order == GPUIO_SEQUENTIAL ? MADV_SEQUENTIAL : MADV_RANDOM) != 0) {
		rc = -errno;
		gpuio_say(&job->why, "the kernel refuses advice on the map (%s)", strerror(-rc));
	}
	return rc;
}

static void plain_copy(void *how, void *to, const void *from, size_t bytes)
{
	(void)how;
	memcpy(to, from, bytes);
}

static int mmap_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct gpuio_mapped *m = job->priv;
	struct gpuio_io *io = ios[0];
	unsigned char *place = m->map + (io->offset - m->from);
	uint64_t length = gpuio_mapped_length(m, io);

	(void)n; /* depth is 1 */
	if (io->op == GPUIO_READ) {
		io->result = gpuio_sigbus_guard(plain_copy, NULL, io->buf, place, length);
	} else {
		io->result = gpuio_sigbus_guard(plain_copy, NULL, place, io->buf, length);
		gpuio_mapped_note(m, io, length);
	}
	m->done = io;
	return 1;
}

static int mmap_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)min;
	return gpuio_mapped_reap(job->priv, done, max);
}

static int mmap_sync(struct gpuio_job *job, int whole)
{
	return gpuio_mapped_sync(job->priv, whole);
}

static void mmap_close(struct gpuio_job *job)
{
	if (!job->priv)
		return;
	gpuio_mapped_release(job->priv);
	free(job->priv);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_mmap = {
	.name = "mmap",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC,
	.probe = mmap_probe,
	.open = mmap_open,
	.submit = mmap_submit,
	.reap = mmap_reap,
	.close = mmap_close,
	.sync = mmap_sync,
};
