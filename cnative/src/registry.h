/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - the engines built in. */
#ifndef GPUIO_REGISTRY_H
#define GPUIO_REGISTRY_H

#include "gpuio.h"

extern const struct gpuio_engine gpuio_engine_null;
extern const struct gpuio_engine gpuio_engine_psync;
extern const struct gpuio_engine gpuio_engine_libaio;
extern const struct gpuio_engine gpuio_engine_io_uring;
extern const struct gpuio_engine gpuio_engine_io_uring_sqpoll;
extern const struct gpuio_engine gpuio_engine_io_uring_iopoll;
extern const struct gpuio_engine gpuio_engine_io_uring_full;
extern const struct gpuio_engine gpuio_engine_io_uring_cmd;
extern const struct gpuio_engine gpuio_engine_io_uring_nop;
extern const struct gpuio_engine gpuio_engine_mmap;
extern const struct gpuio_engine gpuio_engine_cufile;
extern const struct gpuio_engine gpuio_engine_cufile_batch;
extern const struct gpuio_engine gpuio_engine_cufile_stream;
extern const struct gpuio_engine gpuio_engine_dax;
extern const struct gpuio_engine gpuio_engine_spdk;
extern const struct gpuio_engine gpuio_engine_usrbio;

#endif
