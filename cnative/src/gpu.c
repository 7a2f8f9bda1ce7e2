/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "mix.h"
#include "pattern.h"
#include "why.h"

#define MIB (UINT64_C(1) << 20)

struct gpuio_gpus {
	struct gpuio_cuda cuda;
	char *library; /* NULL = searched for */
	struct gpuio_device *devices;
};

/* cuDeviceGetAttribute numbers of the driver API's reference. */
enum { ATTRIBUTE_COPY_ENGINES = 40, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76 };

int gpuio_gpus_open(struct gpuio_gpus **out, const char *library, struct gpuio_why *why)
{
	struct gpuio_gpus *gpus = calloc(1, sizeof(*gpus));
	int rc;

	*out = NULL;
	if (gpus && library)
		gpus->library = strdup(library);
	if (!gpus || (library && !gpus->library)) {
		free(gpus);
		return -ENOMEM;
	}
	rc = gpuio_cuda_open(&gpus->cuda, library, why);
	if (rc) {
		free(gpus->library);
		free(gpus);
		return rc;
	}
	*out = gpus;
	return 0;
}

int gpuio_gpus_same(const struct gpuio_gpus *gpus, const char *library, struct gpuio_why *why)
{
	if (!library == !gpus->library && (!library || strcmp(library, gpus->library) == 0))
		return 0;
	gpuio_say(why, "this process has opened the CUDA driver %s: another one (%s) needs a process of its own",
		  gpus->library ? gpus->library : "libcuda.so.1", library ? library : "libcuda.so.1");
	return -EINVAL;
}

static void close_device(struct gpuio_device *d)
{
	struct gpuio_cuda *cuda = d->cuda;

	if (d->context && cuda->ctx_set_current(d->context) == CUDA_SUCCESS) {
		if (d->module)
			cuda->module_unload(d->module);
		if (d->memory)
			cuda->mem_free(d->memory);
		if (d->arena)
			cuda->mem_free(d->arena);
		cuda->ctx_set_current(NULL);
	}
	if (d->context)
		cuda->primary_ctx_release(d->device);
	free(d);
}

void gpuio_gpus_close(struct gpuio_gpus *gpus)
{
	if (!gpus)
		return;
	while (gpus->devices) {
		struct gpuio_device *d = gpus->devices;

		gpus->devices = d->next;
		close_device(d);
	}
	gpuio_cuda_close(&gpus->cuda);
	free(gpus->library);
	free(gpus);
}

static int open_device(struct gpuio_device *d, struct gpuio_why *why)
{
	struct gpuio_cuda *cuda = d->cuda;
	int n = 0, rc;

	rc = gpuio_cuda_say(cuda, cuda->device_get_count(&n), why, "counting GPUs");
	if (rc)
		return rc;
	if (d->ordinal < 0 || d->ordinal >= n) {
		gpuio_say(why, "there is no GPU %d: the CUDA driver shows %d (numbered from 0; see nvidia-smi -L and "
			  "CUDA_VISIBLE_DEVICES)", d->ordinal, n);
		return -ENODEV;
	}
	rc = gpuio_cuda_say(cuda, cuda->device_get(&d->device, d->ordinal), why, "opening GPU %d", d->ordinal);
	if (rc)
		return rc;
	return gpuio_cuda_say(cuda, cuda->primary_ctx_retain(&d->context, d->device), why, "making a context on GPU %d", d->ordinal);
}

int gpuio_gpus_device(struct gpuio_gpus *gpus, int ordinal, struct gpuio_device **out, struct gpuio_why *why)
{
	struct gpuio_device *d;
	int rc;

	for (d = gpus->devices; d; d = d->next) {
		if (d->ordinal == ordinal) {
			*out = d;
			return gpuio_device_enter(d, why);
		}
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->cuda = &gpus->cuda;
	d->ordinal = ordinal;
	rc = open_device(d, why);
	if (rc) {
		d->context = NULL;
		close_device(d);
		return rc;
	}
	d->next = gpus->devices;
	gpus->devices = *out = d;
	return gpuio_device_enter(d, why);
}

int gpuio_device_enter(struct gpuio_device *d, struct gpuio_why *why)
{
	return gpuio_cuda_say(d->cuda, d->cuda->ctx_set_current(d->context), why, "entering the context of GPU %d", d->ordinal);
}

void gpuio_device_leave(struct gpuio_device *d)
{
	d->cuda->ctx_set_current(NULL);
}

int gpuio_gpus_pin(struct gpuio_gpus *gpus, void *host, uint64_t bytes, struct gpuio_why *why)
{
	return gpuio_cuda_say(&gpus->cuda, gpus->cuda.mem_host_register(host, bytes, CUDA_HOST_REGISTER_PORTABLE), why,
			      "page-locking %" PRIu64 " bytes of host memory", bytes);
}

void gpuio_gpus_leave(struct gpuio_gpus *gpus)
{
	gpus->cuda.ctx_set_current(NULL);
}

void gpuio_gpus_unpin(struct gpuio_gpus *gpus, void *host)
{
	if (gpus->devices)
		gpus->cuda.ctx_set_current(gpus->devices->context);
	gpus->cuda.mem_host_unregister(host);
}

int gpuio_device_reserve(struct gpuio_device *d, uint64_t bytes, struct gpuio_why *why)
{
	int rc;

	if (bytes <= d->memory_bytes)
		return 0;
	bytes = (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	if (d->memory)
		d->cuda->mem_free(d->memory);
	d->memory = 0;
	d->memory_bytes = 0;
	rc = gpuio_cuda_say(d->cuda, d->cuda->mem_alloc(&d->memory, bytes), why, "allocating %" PRIu64 " bytes on GPU %d", bytes,
			    d->ordinal);
	if (rc == 0)
		d->memory_bytes = bytes;
	return rc;
}

static int load_kernels(struct gpuio_device *d, struct gpuio_why *why)
{
	struct gpuio_cuda *cuda = d->cuda;
	int rc = gpuio_cuda_say(cuda, cuda->module_load_data(&d->module, gpuio_kernels_ptx), why,
				"compiling the check of data for GPU %d", d->ordinal);

	if (rc == 0)
		rc = gpuio_cuda_say(cuda, cuda->module_get_function(&d->check, d->module, "gpuio_check"), why, "finding gpuio_check");
	if (rc == 0)
		rc = gpuio_cuda_say(cuda, cuda->module_get_function(&d->stamp, d->module, "gpuio_stamp"), why, "finding gpuio_stamp");
	if (rc == 0)
		rc = gpuio_cuda_say(cuda, cuda->module_get_function(&d->work, d->module, "gpuio_work"), why, "finding gpuio_work");
	return rc;
}

int gpuio_device_kernels(struct gpuio_device *d, struct gpuio_why *why)
{
	int rc;

	if (d->work)
		return 0;
	rc = load_kernels(d, why);
	if (rc && d->module) {
		d->cuda->module_unload(d->module);
		d->module = NULL;
		d->check = d->stamp = d->work = NULL;
	}
	return rc;
}

int gpuio_device_stamp(struct gpuio_device *d, cuda_ptr buf, uint64_t bytes, uint64_t offset, uint64_t seed, cuda_stream stream,
		       struct gpuio_why *why)
{
	uint32_t sectors = (uint32_t)(bytes / GPUIO_SECTOR), blocks = (sectors + GPUIO_STAMP_THREADS - 1) / GPUIO_STAMP_THREADS;
	uint64_t place = mix64(seed);
	void *params[] = {&buf, &offset, &place, &sectors};

	if (sectors == 0)
		return 0;
	return gpuio_cuda_say(d->cuda, d->cuda->launch_kernel(d->stamp, blocks, 1, 1, GPUIO_STAMP_THREADS, 1, 1, 0, stream, params,
							      NULL), why, "stamping data on GPU %d", d->ordinal);
}

bool gpuio_device_can_check(cuda_ptr buf, uint64_t offset)
{
	return (buf + pattern_skip(offset)) % 16 == 0;
}

int gpuio_device_check(struct gpuio_device *d, struct gpuio_device_findings *f, uint32_t slot, cuda_ptr buf, uint64_t bytes,
		       uint64_t offset, uint64_t seed, cuda_stream stream, struct gpuio_why *why)
{
	uint64_t skip = pattern_skip(offset), place = mix64(seed), ticket = ++f->ticket;
	uint32_t sectors = (uint32_t)(pattern_whole(bytes, offset) / GPUIO_SECTOR), blocks = (sectors + 15) / 16;
	cuda_ptr from = buf + skip, mine = f->found + 16 + 8 * (uint64_t)slot;
	void *params[] = {&from, &offset, &place, &sectors, &ticket, &mine, &f->found};

	if (sectors == 0)
		return 0;
	offset += skip;
	return gpuio_cuda_say(d->cuda, d->cuda->launch_kernel(d->check, blocks < 256 ? blocks : 256, 1, 1, GPUIO_CHECK_THREADS, 1, 1, 0,
							      stream, params, NULL), why, "checking data on GPU %d", d->ordinal);
}

int gpuio_device_findings_reset(struct gpuio_device *d, struct gpuio_device_findings *f, uint32_t slots, struct gpuio_why *why)
{
	static const uint64_t none[2] = {0, UINT64_MAX};
	int rc = d->cuda->memset_bytes(f->found, 0, GPUIO_FINDINGS_BYTES(slots));

	f->ticket = 0;
	if (rc == CUDA_SUCCESS)
		rc = d->cuda->memcpy_to_device(f->found, none, sizeof(none));
	return gpuio_cuda_say(d->cuda, rc, why, "resetting what was found on GPU %d", d->ordinal);
}

int gpuio_device_findings_read(struct gpuio_device *d, const struct gpuio_device_findings *f, cuda_stream stream, uint64_t *bad,
			       uint64_t *first_bad, struct gpuio_why *why)
{
	uint64_t found[2] = {0, 0};
	int rc = d->cuda->stream_synchronize(stream);

	if (rc == CUDA_SUCCESS)
		rc = d->cuda->memcpy_to_host(found, f->found, sizeof(found));
	*bad = found[0];
	*first_bad = found[0] ? found[1] : 0;
	return gpuio_cuda_say(d->cuda, rc, why, "reading what was found on GPU %d", d->ordinal);
}

int gpuio_gpu_count(const char *library, int32_t *count, struct gpuio_why *why)
{
	struct gpuio_cuda cuda;
	int n = 0, rc;

	gpuio_say(why, "%s", "");
	*count = 0;
	rc = gpuio_cuda_open(&cuda, library, why);
	if (rc)
		return rc;
	rc = gpuio_cuda_say(&cuda, cuda.device_get_count(&n), why, "counting GPUs");
	*count = n;
	gpuio_cuda_close(&cuda);
	return rc;
}

static int describe(const struct gpuio_cuda *cuda, int ordinal, struct gpuio_gpu_info *info)
{
	size_t bytes = 0;
	cuda_device d;
	int rc;

	info->ordinal = ordinal;
	rc = cuda->device_get(&d, ordinal);
	if (rc == CUDA_SUCCESS)
		rc = cuda->device_get_name(info->name, sizeof(info->name), d);
	if (rc == CUDA_SUCCESS)
		rc = cuda->device_get_uuid(info->uuid, d);
	if (rc == CUDA_SUCCESS)
		rc = cuda->device_get_pci_bus_id(info->bus_id, sizeof(info->bus_id), d);
	if (rc == CUDA_SUCCESS)
		rc = cuda->device_total_mem(&bytes, d);
	if (rc == CUDA_SUCCESS)
		rc = cuda->device_get_attribute(&info->capability_major, ATTRIBUTE_MAJOR, d);
	if (rc == CUDA_SUCCESS)
		rc = cuda->device_get_attribute(&info->capability_minor, ATTRIBUTE_MINOR, d);
	if (rc == CUDA_SUCCESS)
		rc = cuda->device_get_attribute(&info->copy_engines, ATTRIBUTE_COPY_ENGINES, d);
	if (rc == CUDA_SUCCESS)
		rc = cuda->driver_get_version(&info->driver_version);
	info->bytes = bytes;
	return rc;
}

int gpuio_gpu_describe(const char *library, int32_t ordinal, struct gpuio_gpu_info *info, struct gpuio_why *why)
{
	struct gpuio_cuda cuda;
	int rc;

	gpuio_say(why, "%s", "");
	memset(info, 0, sizeof(*info));
	rc = gpuio_cuda_open(&cuda, library, why);
	if (rc)
		return rc;
	rc = gpuio_cuda_say(&cuda, describe(&cuda, ordinal, info), why, "describing GPU %d", ordinal);
	gpuio_cuda_close(&cuda);
	return rc;
}
