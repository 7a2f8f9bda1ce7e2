/* SPDX-License-Identifier: Apache-2.0 */
/* compute.h - an accelerator's steps as kernels on a GPU: so much work as takes a given time alone, timed by the GPU itself. */
#ifndef GPUIO_COMPUTE_H
#define GPUIO_COMPUTE_H

#include "gpu.h"

/* Steps handed over and not yet taken back: one that runs, one behind it, so that the GPU need not wait for the host. */
#define GPUIO_STEPS 2u

struct gpuio_compute;

/* Finds out how much work takes how long, at first use of the device (about 0.3 s). The calling thread has entered the device. */
int gpuio_compute_open(struct gpuio_device *device, struct gpuio_compute **out, struct gpuio_why *why);
/* Ends what runs; the calling thread has entered the device, here and below. */
void gpuio_compute_close(struct gpuio_compute *compute);
uint32_t gpuio_compute_pending(const struct gpuio_compute *compute);
/* Hands over a step that takes `ns` alone, behind those that are pending, of which there must be fewer than GPUIO_STEPS. */
int gpuio_compute_begin(struct gpuio_compute *compute, uint64_t ns, struct gpuio_why *why);
/* Has the oldest pending step ended? 1 = yes: it is taken back, *gap_ns is how long the GPU had waited before it (0 for the first
 * one), and *took_ns how long it ran. 0 = not yet; or -errno. */
int gpuio_compute_end(struct gpuio_compute *compute, uint64_t *gap_ns, uint64_t *took_ns, struct gpuio_why *why);
/* A step of `ns` took `took_ns` alone: from now on steps do as much less or more. */
void gpuio_compute_tune(struct gpuio_compute *compute, uint64_t ns, double took_ns);
/* The next step is the first one. Nothing may be pending. */
void gpuio_compute_rewind(struct gpuio_compute *compute);
/* Makes pending steps end early, and waits until they have. */
int gpuio_compute_abort(struct gpuio_compute *compute, struct gpuio_why *why);

#endif
