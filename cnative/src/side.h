/* SPDX-License-Identifier: Apache-2.0 */
/* side.h - a worker's memory on its GPU: where its slots lie there, and how their content is made, spoiled and checked. */
#ifndef GPUIO_SIDE_H
#define GPUIO_SIDE_H

#include "gpu.h"

#define GPUIO_MAX_STREAMS 16u

struct gpuio_worker;

struct gpuio_side {
	struct gpuio_device *device;
	cuda_ptr base;             /* slot i lies at base + i * stride */
	uint64_t stride;
	bool kernel;               /* data is checked and stamped on the GPU, else through `scratch` */
	unsigned char *scratch;    /* one block of host memory */
	struct gpuio_device_findings findings;
	unsigned nstreams;
	cuda_stream streams[GPUIO_MAX_STREAMS];
};

static inline cuda_ptr side_address(const struct gpuio_side *s, uint32_t slot)
{
	return s->base + slot * s->stride;
}

/* Bytes of GPU memory that a worker with so many slots needs: its slots, then what checks find. */
uint64_t gpuio_side_bytes(uint64_t stride, uint32_t slots);
/* In the worker's own thread, after pinning it to its CPU; the side's device, kernel, base and stride are set. */
int gpuio_side_open(struct gpuio_worker *w);
void gpuio_side_close(struct gpuio_worker *w);
/* What writes will send, and what must not pass for data of this window. */
int gpuio_side_fill(struct gpuio_worker *w);
int gpuio_side_poison(struct gpuio_worker *w);
/* Makes a block in GPU memory valid for the request's offset, and waits until it is. */
int gpuio_side_stamp(struct gpuio_worker *w, const struct gpuio_io *io);
/* Checks a block in GPU memory now; *bad = it has a bad sector, whose offset is *first. The calling thread has the context. */
int gpuio_side_check(struct gpuio_worker *w, const struct gpuio_io *io, bool *bad, uint64_t *first);
/* The same by copying it back, without the kernel. */
int gpuio_side_check_back(struct gpuio_worker *w, const struct gpuio_io *io, bool *bad, uint64_t *first);

#endif
