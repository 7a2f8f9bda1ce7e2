/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - a piece of GPU memory that somebody else moves bytes into, and copies of it. */
#include <errno.h>
#include <stdlib.h>

#include "gpu.h"
#include "why.h"

struct gpuio_memory {
	struct gpuio_gpus *gpus;
	struct gpuio_device *device;
	uint64_t bytes;
};

int gpuio_memory_new(const char *library, int32_t ordinal, uint64_t bytes, struct gpuio_memory **out, struct gpuio_why *why)
{
	struct gpuio_memory *memory = calloc(1, sizeof(*memory));
	int rc;

	gpuio_say(why, "%s", "");
	*out = NULL;
	if (!memory)
		return -ENOMEM;
	rc = gpuio_gpus_open(&memory->gpus, library, why);
	if (rc == 0)
		rc = gpuio_gpus_device(memory->gpus, ordinal, &memory->device, why);
	if (rc == 0)
		rc = gpuio_device_enter(memory->device, why);
	if (rc == 0)
		rc = gpuio_device_reserve(memory->device, bytes, why);
	if (rc) {
		gpuio_memory_free(memory);
		return rc;
	}
	memory->bytes = bytes;
	*out = memory;
	return 0;
}

uint64_t gpuio_memory_address(const struct gpuio_memory *memory)
{
	return memory->device->memory;
}

static int inside(const struct gpuio_memory *memory, uint64_t place, uint64_t bytes, struct gpuio_why *why)
{
	if (bytes <= memory->bytes && place <= memory->bytes - bytes)
		return 0;
	gpuio_say(why, "%llu bytes at %llu are not inside %llu bytes of GPU memory", (unsigned long long)bytes,
		  (unsigned long long)place, (unsigned long long)memory->bytes);
	return -EINVAL;
}

int gpuio_memory_read(struct gpuio_memory *memory, uint64_t place, void *to, uint64_t bytes, struct gpuio_why *why)
{
	struct gpuio_device *device = memory->device;
	int rc = inside(memory, place, bytes, why);

	if (rc == 0)
		rc = gpuio_device_enter(device, why);
	return rc ? rc : gpuio_cuda_say(device->cuda, device->cuda->memcpy_to_host(to, device->memory + place, bytes), why,
					"copying from GPU %d", device->ordinal);
}

int gpuio_memory_write(struct gpuio_memory *memory, uint64_t place, const void *from, uint64_t bytes, struct gpuio_why *why)
{
	struct gpuio_device *device = memory->device;
	int rc = inside(memory, place, bytes, why);

	if (rc == 0)
		rc = gpuio_device_enter(device, why);
	return rc ? rc : gpuio_cuda_say(device->cuda, device->cuda->memcpy_to_device(device->memory + place, from, bytes), why,
					"copying to GPU %d", device->ordinal);
}

void gpuio_memory_free(struct gpuio_memory *memory)
{
	if (!memory)
		return;
	gpuio_gpus_close(memory->gpus);
	free(memory);
}
