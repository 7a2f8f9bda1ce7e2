/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - the GPUs a process uses: opened when first asked for, kept by its buffer pool, one retained primary context each. */
#ifndef GPUIO_GPU_H
#define GPUIO_GPU_H

#include <stdbool.h>

#include "dl/cuda.h"
#include "gpuio.h"

/* One GPU. Its primary context is the one that cuFile and every other library of the process use, too. */
struct gpuio_device {
	struct gpuio_cuda *cuda;
	int ordinal;
	cuda_device device;
	cuda_context context;
	cuda_module module;            /* of the kernels; NULL = not loaded */
	cuda_function check, stamp, work;
	cuda_ptr arena;                /* what gpuio_work reads, and its stop word behind it; 0 = not yet */
	uint64_t arena_bytes;
	unsigned work_blocks;
	double fixed_ns, round_ns;     /* of a gpuio_work alone; 0 = not yet known */
	cuda_ptr memory;               /* of the run that has the pool; grows, never shrinks */
	uint64_t memory_bytes;
	struct gpuio_device *next;
};

struct gpuio_gpus;

/* The GPU's device, opened at first use. The caller's thread has its context afterwards. */
int gpuio_gpus_device(struct gpuio_gpus *gpus, int ordinal, struct gpuio_device **out, struct gpuio_why *why);
/* Opens the driver; `library` as in gpuio_cuda_open. */
int gpuio_gpus_open(struct gpuio_gpus **out, const char *library, struct gpuio_why *why);
/* -EINVAL when they were opened from another library. */
int gpuio_gpus_same(const struct gpuio_gpus *gpus, const char *library, struct gpuio_why *why);
void gpuio_gpus_close(struct gpuio_gpus *gpus);
/* Page-locks host memory for every GPU; a device must have been opened. */
int gpuio_gpus_pin(struct gpuio_gpus *gpus, void *host, uint64_t bytes, struct gpuio_why *why);
/* The calling thread has no context any more. */
void gpuio_gpus_leave(struct gpuio_gpus *gpus);
void gpuio_gpus_unpin(struct gpuio_gpus *gpus, void *host);

/* All below: on the calling thread, which must have entered the device. 0 or -errno with a sentence. */
int gpuio_device_enter(struct gpuio_device *device, struct gpuio_why *why);
void gpuio_device_leave(struct gpuio_device *device);
int gpuio_device_reserve(struct gpuio_device *device, uint64_t bytes, struct gpuio_why *why);
/* Loads the kernels at first use, by one thread at a time; -ENOTSUP or another -errno when the driver cannot compile them. */
int gpuio_device_kernels(struct gpuio_device *device, struct gpuio_why *why);
/* Word 0 of every sector of a block of whole sectors, in the order of the stream; NULL = the default one. */
int gpuio_device_stamp(struct gpuio_device *device, cuda_ptr buf, uint64_t bytes, uint64_t offset, uint64_t seed,
		       cuda_stream stream, struct gpuio_why *why);

/* What checks on a GPU found, in its memory: `found` = {requests with a bad sector, smallest bad offset}, then one word a slot. */
struct gpuio_device_findings {
	cuda_ptr found;
	uint64_t ticket;
};

#define GPUIO_FINDINGS_BYTES(slots) (16u + 8u * (uint64_t)(slots))

/* Whether the kernel can check this block: its first whole sector lies at a 16-byte boundary. */
bool gpuio_device_can_check(cuda_ptr buf, uint64_t offset);
int gpuio_device_check(struct gpuio_device *device, struct gpuio_device_findings *findings, uint32_t slot, cuda_ptr buf,
		       uint64_t bytes, uint64_t offset, uint64_t seed, cuda_stream stream, struct gpuio_why *why);
int gpuio_device_findings_reset(struct gpuio_device *device, struct gpuio_device_findings *findings, uint32_t slots,
				struct gpuio_why *why);
/* Waits for the stream first. */
int gpuio_device_findings_read(struct gpuio_device *device, const struct gpuio_device_findings *findings, cuda_stream stream,
			       uint64_t *bad, uint64_t *first_bad, struct gpuio_why *why);

#endif
