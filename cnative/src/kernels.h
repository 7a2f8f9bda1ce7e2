/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the two kernels that know the data pattern, as PTX text that the driver compiles for its GPU. */
#ifndef GPUIO_KERNELS_H
#define GPUIO_KERNELS_H

/*
 * gpuio_check(buf, offset, place, sectors, ticket, slot, found): one warp per sector, two words a lane, one 512-byte load. `buf` is
 * 16-byte aligned and holds whole sectors of file offset `offset` on; place = mix64(seed). A request with a bad sector sets
 * *slot to its ticket and, if that is new, adds 1 to found[0]; found[1] becomes the smallest offset of a bad sector.
 * gpuio_stamp(buf, offset, place, sectors): word 0 of each sector, one thread each.
 * See pattern.c for what a sector holds.
 */
extern const char gpuio_kernels_ptx[];

#define GPUIO_CHECK_THREADS 256u
#define GPUIO_STAMP_THREADS 128u

#endif
