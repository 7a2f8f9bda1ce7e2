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

struct mmap_state {
	unsigned nfiles;
	struct gpuio_io *done; /* waits to be reaped */
	struct gpuio_mapped files[];
};

static int map_file(struct gpuio_job *job, struct gpuio_mapped *m, uint32_t file)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	bool replay = job->spec->replay.records;
	int rc = replay ? gpuio_mapped_prepare_file(job, m, file, page) : gpuio_mapped_prepare(job, m, 0, page), advice;

	if (rc)
		return rc;
	rc = gpuio_mapped_map(job, m, MAP_SHARED);
	if (rc)
		return gpuio_mapped_refused(job, m, -rc);
	/* Sequential reads ahead far and drops behind; random reads no page more than is touched. Records are left to the kernel's own
	 * judgement, as by a program that just maps its file. */
	advice = replay ? MADV_NORMAL : job->spec->order == GPUIO_SEQUENTIAL ? MADV_SEQUENTIAL : MADV_RANDOM;
	if (madvise(m->map, m->bytes, advice) != 0) {
		rc = -errno;
		gpuio_say(&job->why, "the kernel refuses advice on the map (%s)", strerror(-rc));
	}
	return rc;
}

static int mmap_open(struct gpuio_job *job)
{
	unsigned nfiles = job->spec->replay.records ? job->spec->replay.n_files : 1;
	struct mmap_state *s = calloc(1, sizeof(*s) + nfiles * sizeof(s->files[0]));
	int rc = 0;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	s->nfiles = nfiles;
	for (unsigned i = 0; rc == 0 && i < nfiles; i++)
		rc = map_file(job, &s->files[i], i);
	return rc;
}

static void plain_copy(void *how, void *to, const void *from, size_t bytes)
{
	(void)how;
	memcpy(to, from, bytes);
}

static int mmap_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct mmap_state *s = job->priv;
	struct gpuio_io *io = ios[0];
	struct gpuio_mapped *m = &s->files[io->file];
	unsigned char *place = m->map + (io->offset - m->from);
	uint64_t length = gpuio_mapped_length(m, io);

	(void)n; /* depth is 1 */
	if (io->op == GPUIO_READ) {
		io->result = gpuio_sigbus_guard(plain_copy, NULL, io->buf, place, length);
	} else {
		io->result = gpuio_sigbus_guard(plain_copy, NULL, place, io->buf, length);
		gpuio_mapped_note(m, io, length);
	}
	s->done = io;
	return 1;
}

static int mmap_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct mmap_state *s = job->priv;

	(void)min;
	if (!s->done || max == 0)
		return 0;
	done[0] = s->done;
	s->done = NULL;
	return 1;
}

static int mmap_sync(struct gpuio_job *job, uint16_t file, int fd, int whole)
{
	struct mmap_state *s = job->priv;

	(void)fd;
	return gpuio_mapped_sync(&s->files[file], whole);
}

static void mmap_close(struct gpuio_job *job)
{
	struct mmap_state *s = job->priv;

	if (!s)
		return;
	for (unsigned i = 0; i < s->nfiles; i++)
		gpuio_mapped_release(&s->files[i]);
	free(s);
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
