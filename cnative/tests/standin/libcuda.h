/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda.h - what the stand-in for the CUDA driver lets a test see. It is no GPU: "device" memory is host memory under addresses
 * that fault when they are used as pointers, each stream is a thread, and the kernels are written out in C: gpuio_work sleeps. It is strict where
 * the driver is lenient: asynchronous copies need page-locked memory, and every call but the first ones a current context.
 *
 * Environment, read by cuInit:
 *   STANDIN_CUDA_GPUS=N          GPUs there are (1)
 *   STANDIN_CUDA_FAIL=NAME:N:CODE  the Nth call of NAME (from 1) and all after it return CODE
 *   STANDIN_CUDA_LOSE=N          each Nth asynchronous copy moves nothing and says it did
 *   STANDIN_CUDA_DELAY_US=N      every operation on a stream takes so long
 */
#ifndef STANDIN_LIBCUDA_H
#define STANDIN_LIBCUDA_H

#include <stdint.h>

#define STANDIN_GPUS 8

struct standin_state {
	uint64_t contexts[STANDIN_GPUS];      /* retained and not released */
	uint64_t ever[STANDIN_GPUS];          /* times a context was made */
	uint64_t allocations, streams, events, modules, pinned; /* alive */
	uint64_t copies_in, copies_out;       /* asynchronous, so far */
	uint64_t bytes_in, bytes_out;
	uint64_t kernels;                     /* launches */
};

/* From now on gpuio_work takes so many times as long, as if something took memory bandwidth away from it. */
void standin_cuda_slow_down(uint32_t times);
void standin_cuda_state(struct standin_state *out);

#endif
