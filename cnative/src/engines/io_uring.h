/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring.h - why a ring, or a part of it, cannot be had. */
#ifndef GPUIO_ENGINES_IO_URING_H
#define GPUIO_ENGINES_IO_URING_H

#include "gpuio.h"

/* Why io_uring_setup failed with `error` (positive). `proc` is "/proc" but in tests. */
void gpuio_uring_explain_setup(int error, unsigned entries, const char *proc, struct gpuio_why *why);
/* Why io_uring_register_buffers failed for `bytes` of memory. */
void gpuio_uring_explain_buffers(int error, uint64_t bytes, struct gpuio_why *why);

#endif
