/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/mapped.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engines/sigbus.h"
#include "why.h"

static int hold_and_measure(struct gpuio_job *job, struct gpuio_mapped *m, int fd, uint64_t size)
{
	int rc = gpuio_sigbus_hold();

	if (rc)
		return rc;
	m->guarded = true;
	m->fd = fd;
	m->size = size;
	if (size == 0) {
		off_t asked = lseek(fd, 0, SEEK_END); /* block devices have no st_size; the offset is not used */

		if (asked < 0) {
			rc = -errno;
			gpuio_say(&job->why, "%s needs a file or block device with a size (%s)", job->engine->name, strerror(-rc));
			return rc;
		}
		m->size = (uint64_t)asked;
	}
	return 0;
}

int gpuio_mapped_prepare(struct gpuio_job *job, struct gpuio_mapped *m, uint64_t size, uint64_t align)
{
	const struct gpuio_spec *spec = job->spec;
	uint64_t end = spec->region_offset + spec->region_bytes;
	int rc = hold_and_measure(job, m, spec->fd, size);

	m->from = spec->region_offset / align * align;
	m->bytes = (end - m->from + align - 1) / align * align;
	return rc;
}

int gpuio_mapped_prepare_file(struct gpuio_job *job, struct gpuio_mapped *m, uint32_t file, uint64_t align)
{
	int rc = hold_and_measure(job, m, job->spec->replay.fds[file], 0);

	m->bytes = (m->size + align - 1) / align * align;
	return rc;
}

int gpuio_mapped_map(struct gpuio_job *job, struct gpuio_mapped *m, int flags)
{
	const struct gpuio_spec *spec = job->spec;
	int protection = PROT_READ | (spec->read_percent < 100 ? PROT_WRITE : 0);
	void *map = mmap(NULL, m->bytes, protection, flags, m->fd, (off_t)m->from);

	if (map == MAP_FAILED)
		return -errno;
	m->map = map;
	return 0;
}

int gpuio_mapped_refused(struct gpuio_job *job, const struct gpuio_mapped *m, int err)
{
	gpuio_say(&job->why, "%" PRIu64 " bytes of the file cannot be mapped (%s)%s", m->bytes, strerror(err),
		  err == EACCES ? ": open it for reading, and for writing too when it is written" :
		  err == ENODEV ? ": its file system has no mmap" : "");
	return -err;
}

uint64_t gpuio_mapped_length(const struct gpuio_mapped *m, const struct gpuio_io *io)
{
	if (io->offset + io->length <= m->size)
		return io->length;
	return io->offset < m->size ? m->size - io->offset : 0;
}

void gpuio_mapped_note(struct gpuio_mapped *m, const struct gpuio_io *io, uint64_t length)
{
	if (m->high == 0 || io->offset < m->low)
		m->low = io->offset;
	if (io->offset + length > m->high)
		m->high = io->offset + length;
}

int gpuio_mapped_sync(struct gpuio_mapped *m, bool whole)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char *first = whole || m->high == 0 ? m->map : m->map + (m->low / page * page - m->from);
	unsigned char *last = whole || m->high == 0 ? m->map + m->bytes : m->map + (m->high - m->from);

	m->low = m->high = 0;
	return msync(first, (size_t)(last - first), MS_SYNC) != 0 ? -errno : 0;
}

int gpuio_mapped_reap(struct gpuio_mapped *m, struct gpuio_io **done, unsigned max)
{
	if (!m->done || max == 0)
		return 0;
	done[0] = m->done;
	m->done = NULL;
	return 1;
}

void gpuio_mapped_release(struct gpuio_mapped *m)
{
	if (m->map)
		munmap(m->map, m->bytes);
	if (m->guarded)
		gpuio_sigbus_release();
	m->map = NULL;
	m->guarded = false;
}
