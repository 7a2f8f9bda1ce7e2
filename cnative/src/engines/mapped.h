/* SPDX-License-Identifier: Apache-2.0 */
/* mapped.h - what the engines share that reach a file by a map of it: the map, its guard, and the one request at a time. */
#ifndef GPUIO_ENGINES_MAPPED_H
#define GPUIO_ENGINES_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "gpuio.h"

struct gpuio_mapped {
	int fd;
	unsigned char *map;     /* of file offset `from` on */
	uint64_t from, bytes;
	uint64_t size;          /* of the file at open; what ends beyond is a short I/O, as read would say */
	uint64_t low, high;     /* written and not yet made durable; none when high = 0 */
	bool guarded;
	struct gpuio_io *done;  /* waits to be reaped */
};

/* Holds SIGBUS, finds the part of the file to be mapped in steps of `align` bytes: the spec's region of its file, or all of the file of
 * a replay. `size` 0 = ask the file. 0 or -errno, with job->why. */
int gpuio_mapped_prepare(struct gpuio_job *job, struct gpuio_mapped *m, uint64_t size, uint64_t align);
int gpuio_mapped_prepare_file(struct gpuio_job *job, struct gpuio_mapped *m, uint32_t file, uint64_t align);
/* mmap with these flags. 0 or -errno; job->why is not touched. */
int gpuio_mapped_map(struct gpuio_job *job, struct gpuio_mapped *m, int flags);
/* The sentence for a map that failed; returns -err. */
int gpuio_mapped_refused(struct gpuio_job *job, const struct gpuio_mapped *m, int err);

/* Bytes of the request that lie in the file. */
uint64_t gpuio_mapped_length(const struct gpuio_mapped *m, const struct gpuio_io *io);
/* Notes that a request has been written and is not yet durable. */
void gpuio_mapped_note(struct gpuio_mapped *m, const struct gpuio_io *io, uint64_t length);
/* msync from the first to the last byte noted since the last time, or of everything. */
int gpuio_mapped_sync(struct gpuio_mapped *m, bool whole);
int gpuio_mapped_reap(struct gpuio_mapped *m, struct gpuio_io **done, unsigned max);
/* Unmaps and lets go of SIGBUS; after a failed prepare, too. */
void gpuio_mapped_release(struct gpuio_mapped *m);

#endif
