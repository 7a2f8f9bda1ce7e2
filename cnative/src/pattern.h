/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - which part of a block can be checked. */
#ifndef GPUIO_PATTERN_H
#define GPUIO_PATTERN_H

#include "gpuio.h"

/* Bytes before the first sector boundary of a block, and bytes of whole sectors after it. */
static inline uint64_t pattern_skip(uint64_t offset)
{
	return (GPUIO_SECTOR - offset % GPUIO_SECTOR) % GPUIO_SECTOR;
}

static inline uint64_t pattern_whole(uint64_t bytes, uint64_t offset)
{
	uint64_t skip = pattern_skip(offset);

	return bytes > skip ? (bytes - skip) / GPUIO_SECTOR * GPUIO_SECTOR : 0;
}

#endif
