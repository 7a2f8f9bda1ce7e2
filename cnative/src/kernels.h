/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - our kernels, as PTX text that the driver compiles for its GPU: two that know the data pattern, and one that works. */
#ifndef GPUIO_KERNELS_H
#define GPUIO_KERNELS_H

/*
 * gpuio_check(buf, offset, place, sectors, ticket, slot, found): one warp per sector, two words a lane, one 512-byte load. `buf` is
 * 16-byte aligned and holds whole sectors of file offset `offset` on; place = mix64(seed). A request with a bad sector sets
 * *slot to its ticket and, if that is new, adds 1 to found[0]; found[1] becomes the smallest offset of a bad sector.
 * gpuio_stamp(buf, offset, place, sectors): word 0 of each sector, one thread each.
 * See pattern.c for what a sector holds.
 * gpuio_work(arena, vectors, rounds, stop): an emulated step of training or inference: every thread reads 64 bytes of the arena a
 * round, all of them together stream through it. `vectors` of 16 bytes are a power of two; ends early when *stop is not 0.
 */
extern const char gpuio_kernels_ptx[];

#define GPUIO_CHECK_THREADS 256u
#define GPUIO_STAMP_THREADS 128u
/* Half of what a multiprocessor holds: other kernels, and libraries of others, find room beside it. */
#define GPUIO_WORK_THREADS 512u
#define GPUIO_WORK_BLOCKS 2u

#endif
