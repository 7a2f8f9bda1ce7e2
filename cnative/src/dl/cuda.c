/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "why.h"

#define FUNCTION(symbol, member) {symbol, offsetof(struct gpuio_cuda, member)}

/* The symbols carry the version of their arguments; these exist since CUDA 11 and are kept for ever. */
static const struct {
	const char *symbol;
	size_t place;
} functions[] = {
	FUNCTION("cuInit", init),
	FUNCTION("cuDriverGetVersion", driver_get_version),
	FUNCTION("cuGetErrorName", get_error_name),
	FUNCTION("cuGetErrorString", get_error_string),
	FUNCTION("cuDeviceGetCount", device_get_count),
	FUNCTION("cuDeviceGet", device_get),
	FUNCTION("cuDeviceGetName", device_get_name),
	FUNCTION("cuDeviceGetUuid", device_get_uuid),
	FUNCTION("cuDeviceGetPCIBusId", device_get_pci_bus_id),
	FUNCTION("cuDeviceTotalMem_v2", device_total_mem),
	FUNCTION("cuDeviceGetAttribute", device_get_attribute),
	FUNCTION("cuDevicePrimaryCtxRetain", primary_ctx_retain),
	FUNCTION("cuDevicePrimaryCtxRelease_v2", primary_ctx_release),
	FUNCTION("cuDevicePrimaryCtxGetState", primary_ctx_get_state),
	FUNCTION("cuCtxSetCurrent", ctx_set_current),
	FUNCTION("cuMemAlloc_v2", mem_alloc),
	FUNCTION("cuMemFree_v2", mem_free),
	FUNCTION("cuMemHostRegister_v2", mem_host_register),
	FUNCTION("cuMemHostUnregister", mem_host_unregister),
	FUNCTION("cuMemcpyHtoD_v2", memcpy_to_device),
	FUNCTION("cuMemcpyDtoH_v2", memcpy_to_host),
	FUNCTION("cuMemcpyHtoDAsync_v2", memcpy_to_device_async),
	FUNCTION("cuMemcpyDtoHAsync_v2", memcpy_to_host_async),
	FUNCTION("cuMemsetD8_v2", memset_bytes),
	FUNCTION("cuStreamCreate", stream_create),
	FUNCTION("cuStreamDestroy_v2", stream_destroy),
	FUNCTION("cuStreamSynchronize", stream_synchronize),
	FUNCTION("cuEventCreate", event_create),
	FUNCTION("cuEventDestroy_v2", event_destroy),
	FUNCTION("cuEventRecord", event_record),
	FUNCTION("cuEventQuery", event_query),
	FUNCTION("cuEventSynchronize", event_synchronize),
	FUNCTION("cuEventElapsedTime", event_elapsed_time),
	FUNCTION("cuModuleLoadData", module_load_data),
	FUNCTION("cuModuleUnload", module_unload),
	FUNCTION("cuModuleGetFunction", module_get_function),
	FUNCTION("cuLaunchKernel", launch_kernel),
};

static const struct {
	int code, error;
	const char *remedy;
} remedies[] = {
	{CUDA_OUT_OF_MEMORY, -ENOMEM, "its memory is taken: see nvidia-smi, or lower block size, queue depth or jobs"},
	{CUDA_STUB_LIBRARY, -ELIBACC, "this is the toolkit's stub of the driver: take its folder out of LD_LIBRARY_PATH"},
	{CUDA_DEVICE_UNAVAILABLE, -EBUSY, "another process has it (exclusive compute mode, see nvidia-smi -q -d COMPUTE), or it is lost"},
	{CUDA_NO_DEVICE, -ENODEV, "there is no NVIDIA GPU, /dev/nvidia* is not there, or CUDA_VISIBLE_DEVICES hides it"},
	{CUDA_INVALID_DEVICE, -ENODEV, "see nvidia-smi -L and CUDA_VISIBLE_DEVICES for the GPUs there are"},
	{CUDA_NO_BINARY_FOR_GPU, -ENOTSUP, "use --gpuio-copy=check=copy"},
	{CUDA_INVALID_PTX, -ENOTSUP, "use --gpuio-copy=check=copy"},
	{CUDA_UNSUPPORTED_PTX_VERSION, -ENOTSUP, "update the driver, or use --gpuio-copy=check=copy"},
	{CUDA_SYSTEM_NOT_READY, -ENODEV, "start the fabric manager (systemctl start nvidia-fabricmanager), see dmesg"},
	{CUDA_SYSTEM_DRIVER_MISMATCH, -ELIBACC, "libcuda and the kernel module are of different versions: reboot after the update"},
	{CUDA_COMPAT_NOT_SUPPORTED_ON_DEVICE, -ELIBACC, "take the toolkit's compat folder out of LD_LIBRARY_PATH"},
};

int gpuio_cuda_say(const struct gpuio_cuda *cuda, int code, struct gpuio_why *why, const char *format, ...)
{
	const char *name = NULL, *text = NULL, *remedy = NULL;
	char what[160];
	va_list args;
	int error = -EIO;

	if (code == CUDA_SUCCESS)
		return 0;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (cuda->get_error_name)
		cuda->get_error_name(code, &name);
	if (cuda->get_error_string)
		cuda->get_error_string(code, &text);
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++) {
		if (remedies[i].code == code) {
			remedy = remedies[i].remedy;
			error = remedies[i].error;
		}
	}
	gpuio_say(why, "%s failed: %s (%d, %s)%s%s", what, name ? name : "unknown CUDA error", code, text ? text : "no text",
		  remedy ? ": " : "", remedy ? remedy : "");
	return error;
}

int gpuio_cuda_open(struct gpuio_cuda *cuda, const char *library, struct gpuio_why *why)
{
	const char *named = library ? library : getenv("GPUIO_LIBCUDA");
	const char *path = named && named[0] ? named : "libcuda.so.1";
	int rc;

	memset(cuda, 0, sizeof(*cuda));
	/* NODELETE: the driver has threads of its own, and a run that was given up must not lose the code under its feet. */
	cuda->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!cuda->handle) {
		gpuio_say(why, "the CUDA driver cannot be opened (%s): install NVIDIA's driver (in a container: run it with --gpus), or "
			  "name the library in GPUIO_LIBCUDA", dlerror());
		return -ELIBACC;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *address = dlsym(cuda->handle, functions[i].symbol);

		if (!address) {
			gpuio_say(why, "%s lacks %s: use an NVIDIA driver of CUDA 11 or newer", path, functions[i].symbol);
			gpuio_cuda_close(cuda);
			return -ELIBACC;
		}
		memcpy((char *)cuda + functions[i].place, &address, sizeof(address));
	}
	rc = gpuio_cuda_say(cuda, cuda->init(0), why, "initialising the CUDA driver");
	if (rc)
		gpuio_cuda_close(cuda);
	return rc;
}

void gpuio_cuda_close(struct gpuio_cuda *cuda)
{
	if (cuda->handle)
		dlclose(cuda->handle);
	memset(cuda, 0, sizeof(*cuda));
}
