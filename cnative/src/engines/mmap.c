/* SPDX-License-Identifier: Apache-2.0 */
/* mmap.c - the file mapped into memory: a read copies out of the map, a write into it, page faults do the I/O. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engines/sigbus.h"
#include "registry.h"
#include "why.h"

struct mapped {
	unsigned char *map;     /* of file offset `from` on */
	uint64_t from, bytes;
	uint64_t size;          /* of the file at open; what ends beyond is a short I/O, as read would say */
	uint64_t low, high;     /* written and not yet made durable; none when high = 0 */
};

struct mmap_state {
	bool guarded;
	struct gpuio_io *done;  /* waits to be reaped */
	unsigned nfiles;
	struct mapped files[];
};

static int mmap_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

/* Maps `bytes` of a file from `from` on; 0 = all of it. */
static int map_file(struct gpuio_job *job, struct mapped *m, int fd, uint64_t from, uint64_t bytes, int advice)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int protection = PROT_READ | (job->spec->read_percent < 100 ? PROT_WRITE : 0), err;
	off_t size = lseek(fd, 0, SEEK_END); /* block devices have no st_size; the offset is not used */

	if (size < 0) {
		err = errno;
		gpuio_say(&job->why, "mmap needs a file or block device with a size (%s)", strerror(err));
		return -err;
	}
	m->size = (uint64_t)size;
	m->from = from / page * page;
	m->bytes = from + (bytes ? bytes : m->size) - m->from;
	m->map = mmap(NULL, m->bytes, protection, MAP_SHARED, fd, (off_t)m->from);
	if (m->map == MAP_FAILED) {
		err = errno;
		m->map = NULL;
		gpuio_say(&job->why, "%" PRIu64 " bytes of the file cannot be mapped (%s)%s", m->bytes, strerror(err),
			  err == EACCES ? ": open it for reading, and for writing too when it is written" :
			  err == ENODEV ? ": its file system has no mmap" : "");
		return -err;
	}
	if (madvise(m->map, m->bytes, advice) == 0)
		return 0;
	err = errno;
	gpuio_say(&job->why, "the kernel refuses advice on the map (%s)", strerror(err));
	return -err;
}

static int mmap_open(struct gpuio_job *job)
{
	const struct gpuio_replay_spec *replay = &job->spec->replay;
	unsigned nfiles = replay->records ? replay->n_files : 1;
	struct mmap_state *s = calloc(1, sizeof(*s) + nfiles * sizeof(s->files[0]));
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	s->nfiles = nfiles;
	rc = gpuio_sigbus_hold();
	if (rc)
		return rc;
	s->guarded = true;
	/* Sequential reads ahead far and drops behind; random reads no page more than is touched. Records are left to the kernel's own
	 * judgement, as a program that just maps its file leaves it. */
	for (unsigned i = 0; replay->records && rc == 0 && i < nfiles; i++)
		rc = map_file(job, &s->files[i], replay->fds[i], 0, 0, MADV_NORMAL);
	if (!replay->records)
		rc = map_file(job, &s->files[0], job->spec->fd, job->spec->region_offset, job->spec->region_bytes,
			      job->spec->order == GPUIO_SEQUENTIAL ? MADV_SEQUENTIAL : MADV_RANDOM);
	return rc;
}

/* The copy, or -EFAULT when a page could not be had: the file has shrunk, or its medium failed. */
static int64_t guarded_copy(void *to, const void *from, size_t bytes)
{
	sigjmp_buf escape;

	if (sigsetjmp(escape, 0) != 0) {
		gpuio_sigbus_landed();
		return -EFAULT;
	}
	gpuio_sigbus_escape = &escape;
	/* The fault must come between these two lines. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memcpy(to, from, bytes);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	gpuio_sigbus_escape = NULL;
	return (int64_t)bytes;
}

static int mmap_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct mmap_state *s = job->priv;
	struct gpuio_io *io = ios[0];
	struct mapped *m = &s->files[io->file];
	uint64_t length = io->length;
	unsigned char *place;

	(void)n; /* depth is 1 */
	if (io->offset + length > m->size)
		length = io->offset < m->size ? m->size - io->offset : 0;
	place = m->map + (io->offset - m->from);
	if (io->op == GPUIO_READ) {
		io->result = guarded_copy(io->buf, place, length);
	} else {
		io->result = guarded_copy(place, io->buf, length);
		if (m->high == 0 || io->offset < m->low)
			m->low = io->offset;
		if (io->offset + length > m->high)
			m->high = io->offset + length;
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

/* From the first to the last byte written since the last time, in one call: the kernel writes the dirty pages among them. */
static int mmap_sync(struct gpuio_job *job, uint16_t file, int fd, int whole)
{
	struct mapped *m = &((struct mmap_state *)job->priv)->files[file];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char *first = whole || m->high == 0 ? m->map : m->map + (m->low / page * page - m->from);
	unsigned char *last = whole || m->high == 0 ? m->map + m->bytes : m->map + (m->high - m->from);

	(void)fd;
	m->low = m->high = 0;
	return msync(first, (size_t)(last - first), MS_SYNC) != 0 ? -errno : 0;
}

static void mmap_close(struct gpuio_job *job)
{
	struct mmap_state *s = job->priv;

	if (!s)
		return;
	for (unsigned i = 0; i < s->nfiles; i++)
		if (s->files[i].map)
			munmap(s->files[i].map, s->files[i].bytes);
	if (s->guarded)
		gpuio_sigbus_release();
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
