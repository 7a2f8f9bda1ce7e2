/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.h - the pool as a run sees it. */
#ifndef GPUIO_BUFFERS_H
#define GPUIO_BUFFERS_H

#include "aio.h"
#include "gpu.h"
#include "gpuio.h"

#define GPUIO_PAGE 4096u

/* Bytes between two slots: whole pages, so that every slot is aligned for O_DIRECT. */
static inline uint64_t slot_stride(uint32_t block)
{
	return ((uint64_t)block + GPUIO_PAGE - 1) / GPUIO_PAGE * GPUIO_PAGE;
}

/* Takes the pool for one run, grown to `bytes`; *base is its start. -EBUSY while another run has it. */
int gpuio_pool_take(struct gpuio_pool *pool, uint64_t bytes, unsigned char **base, struct gpuio_why *why);
/* The GPUs of the pool's process, opened at first use, and the pool page-locked for them. A device must be open for the latter. */
int gpuio_pool_gpus(struct gpuio_pool *pool, const char *library, struct gpuio_gpus **gpus, struct gpuio_why *why);
int gpuio_pool_pin(struct gpuio_pool *pool, struct gpuio_why *why);
/* What the pool's process keeps of libaio's contexts. */
struct gpuio_aio *gpuio_pool_aio(struct gpuio_pool *pool);
void gpuio_pool_give_back(struct gpuio_pool *pool);

#endif
