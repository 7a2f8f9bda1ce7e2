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

struct mmap_state {
	unsigned char *map;     /* of file offset `from` on */
	uint64_t from, bytes;
	uint64_t size;          /* of the file at open; what ends beyond is a short I/O, as read would say */
	uint64_t low, high;     /* written and not yet made durable; none when high = 0 */
	bool guarded;
	struct gpuio_io *done;  /* waits to be reaped */
};

static int mmap_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static int map_region(struct gpuio_job *job, struct mmap_state *s)
{
	const struct gpuio_spec *spec = job->spec;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = spec->region_offset + spec->region_bytes;
	int protection = PROT_READ | (spec->read_percent < 100 ? PROT_WRITE : 0), err;
	off_t size = lseek(spec->fd, 0, SEEK_END); /* block devices have no st_size; the offset is not used */

	if (size < 0) {
		err = errno;
		gpuio_say(&job->why, "mmap needs a file or block device with a size (%s)", strerror(err));
		return -err;
	}
	s->size = (uint64_t)size;
	s->from = spec->region_offset / page * page;
	s->bytes = end - s->from;
	s->map = mmap(NULL, s->bytes, protection, MAP_SHARED, spec->fd, (off_t)s->from);
	if (s->map != MAP_FAILED)
		return 0;
	err = errno;
	s->map = NULL;
	gpuio_say(&job->why, "%" PRIu64 " bytes of the file cannot be mapped (%s)%s", s->bytes, strerror(err),
		  err == EACCES ? ": open it for reading, and for writing too when it is written" :
		  err == ENODEV ? ": its file system has no mmap" : "");
	return -err;
}

static int mmap_open(struct gpuio_job *job)
{
	struct mmap_state *s = calloc(1, sizeof(*s));
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	rc = gpuio_sigbus_hold();
	if (rc)
		return rc;
	s->guarded = true;
	rc = map_region(job, s);
	if (rc)
		return rc;
	/* Sequential reads ahead far and drops behind; random reads no page more than is touched. */
	if (madvise(s->map, s->bytes, job->spec->order == GPUIO_SEQUENTIAL ? MADV_SEQUENTIAL : MADV_RANDOM) != 0) {
		rc = -errno;
		gpuio_say(&job->why, "the kernel refuses advice on the map (%s)", strerror(-rc));
	}
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
	unsigned char *place = s->map + (io->offset - s->from);
	uint64_t length = io->length;

	(void)n; /* depth is 1 */
	if (io->offset + length > s->size)
		length = io->offset < s->size ? s->size - io->offset : 0;
	if (io->op == GPUIO_READ) {
		io->result = guarded_copy(io->buf, place, length);
	} else {
		io->result = guarded_copy(place, io->buf, length);
		if (s->high == 0 || io->offset < s->low)
			s->low = io->offset;
		if (io->offset + length > s->high)
			s->high = io->offset + length;
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
static int mmap_sync(struct gpuio_job *job, int whole)
{
	struct mmap_state *s = job->priv;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char *first = whole || s->high == 0 ? s->map : s->map + (s->low / page * page - s->from);
	unsigned char *last = whole || s->high == 0 ? s->map + s->bytes : s->map + (s->high - s->from);

	s->low = s->high = 0;
	return msync(first, (size_t)(last - first), MS_SYNC) != 0 ? -errno : 0;
}

static void mmap_close(struct gpuio_job *job)
{
	struct mmap_state *s = job->priv;

	if (!s)
		return;
	if (s->map)
		munmap(s->map, s->bytes);
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
