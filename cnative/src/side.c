/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "pattern.h"
#include "run.h"

#define POISON 0xdd

uint64_t gpuio_side_bytes(uint64_t stride, uint32_t slots)
{
	/* Whole pages, so that every worker's slots are aligned. */
	return stride * slots + (GPUIO_FINDINGS_BYTES(slots) + GPUIO_PAGE - 1) / GPUIO_PAGE * GPUIO_PAGE;
}

static int make_streams(struct gpuio_side *s, unsigned n, struct gpuio_why *why)
{
	const struct gpuio_cuda *cuda = s->device->cuda;

	for (; s->nstreams < n; s->nstreams++) {
		int rc = gpuio_cuda_say(cuda, cuda->stream_create(&s->streams[s->nstreams], CUDA_STREAM_NON_BLOCKING), why,
					"making a stream on GPU %d", s->device->ordinal);

		if (rc)
			return rc;
	}
	return 0;
}

int gpuio_side_open(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_side *s = w->side;
	int rc = gpuio_device_enter(s->device, &w->job.why);

	if (rc == 0)
		rc = make_streams(s, spec->gpu.streams ? spec->gpu.streams : 1, &w->job.why);
	if (rc)
		return rc;
	s->scratch = aligned_alloc(GPUIO_PAGE, slot_stride(spec->block));
	if (!s->scratch)
		return -ENOMEM;
	s->findings.found = s->base + s->stride * w->job.slots;
	return gpuio_device_findings_reset(s->device, &s->findings, w->job.slots, &w->job.why);
}

void gpuio_side_close(struct gpuio_worker *w)
{
	struct gpuio_side *s = w->side;

	if (!s)
		return;
	for (unsigned i = 0; i < s->nstreams; i++) {
		s->device->cuda->stream_synchronize(s->streams[i]);
		s->device->cuda->stream_destroy(s->streams[i]);
	}
	s->nstreams = 0;
	free(s->scratch);
	s->scratch = NULL;
}

int gpuio_side_fill(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_side *s = w->side;

	for (uint32_t i = 0; i < w->job.slots; i++) {
		int rc;

		gpuio_pattern_fill(s->scratch, spec->block, slot_place(w, i), spec->pattern_seed);
		rc = gpuio_cuda_say(s->device->cuda, s->device->cuda->memcpy_to_device(side_address(s, i), s->scratch, spec->block),
				    &w->job.why, "filling GPU %d", s->device->ordinal);
		if (rc)
			return rc;
	}
	return 0;
}

int gpuio_side_poison(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	struct gpuio_side *s = w->side;
	int rc = CUDA_SUCCESS;

	if (spec->read_percent == 100)
		rc = cuda->memset_bytes(s->base, POISON, s->stride * w->job.slots);
	/* Writes still need their bodies: only the words that name the place are spoiled. */
	for (uint32_t i = 0; spec->read_percent < 100 && rc == CUDA_SUCCESS && i < w->job.slots; i++) {
		rc = cuda->memset_bytes(side_address(s, i), POISON, sizeof(uint64_t));
		if (rc == CUDA_SUCCESS)
			rc = cuda->memset_bytes(side_address(s, i) + spec->block - GPUIO_SECTOR, POISON, sizeof(uint64_t));
	}
	return gpuio_cuda_say(cuda, rc, &w->job.why, "spoiling the buffers on GPU %d", s->device->ordinal);
}

int gpuio_side_stamp(struct gpuio_worker *w, const struct gpuio_io *io)
{
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	uint64_t seed = w->run->seeds[io->file];
	struct gpuio_side *s = w->side;
	cuda_ptr at = side_address(s, io->index);
	int rc;

	if (s->kernel) {
		rc = gpuio_device_stamp(s->device, at, io->length, io->offset, seed, s->streams[0], &w->job.why);
		if (rc)
			return rc;
		rc = cuda->stream_synchronize(s->streams[0]);
	} else {
		rc = cuda->memcpy_to_host(s->scratch, at, io->length);
		gpuio_pattern_stamp(s->scratch, io->length, io->offset, seed);
		if (rc == CUDA_SUCCESS)
			rc = cuda->memcpy_to_device(at, s->scratch, io->length);
	}
	return gpuio_cuda_say(cuda, rc, &w->job.why, "stamping data on GPU %d", s->device->ordinal);
}

int gpuio_side_check_back(struct gpuio_worker *w, const struct gpuio_io *io, bool *bad, uint64_t *first)
{
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	struct gpuio_side *s = w->side;
	int rc = gpuio_cuda_say(cuda, cuda->memcpy_to_host(s->scratch, side_address(s, io->index), io->length), &w->job.why,
				"copying data back from GPU %d", s->device->ordinal);

	*bad = rc == 0 && gpuio_pattern_check(s->scratch, io->length, io->offset, w->run->seeds[io->file], first) > 0;
	return rc;
}

int gpuio_side_check(struct gpuio_worker *w, const struct gpuio_io *io, bool *bad, uint64_t *first)
{
	struct gpuio_side *s = w->side;
	cuda_ptr at = side_address(s, io->index);
	uint64_t found = 0;
	int rc;

	if (!s->kernel || !gpuio_device_can_check(at, io->offset))
		return gpuio_side_check_back(w, io, bad, first);
	rc = gpuio_device_findings_reset(s->device, &s->findings, w->job.slots, &w->job.why);
	if (rc == 0)
		rc = gpuio_device_check(s->device, &s->findings, io->index, at, io->length, io->offset, w->run->seeds[io->file],
					s->streams[0], &w->job.why);
	if (rc == 0)
		rc = gpuio_device_findings_read(s->device, &s->findings, s->streams[0], &found, first, &w->job.why);
	*bad = found > 0;
	return rc;
}
