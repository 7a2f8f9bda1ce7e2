/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - the part of the CUDA driver API that is called, as pointers found at run time; prototypes from its public reference. */
#ifndef GPUIO_DL_CUDA_H
#define GPUIO_DL_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "gpuio.h"

/* CUresult values that are told apart here. */
enum {
	CUDA_SUCCESS = 0,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_STUB_LIBRARY = 34,
	CUDA_DEVICE_UNAVAILABLE = 46,
	CUDA_NO_DEVICE = 100,
	CUDA_INVALID_DEVICE = 101,
	CUDA_NO_BINARY_FOR_GPU = 209,
	CUDA_INVALID_PTX = 218,
	CUDA_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_NOT_READY = 600,
	CUDA_SYSTEM_NOT_READY = 802,
	CUDA_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
};

enum {
	CUDA_STREAM_NON_BLOCKING = 1,
	CUDA_EVENT_BLOCKING_SYNC = 1,
	CUDA_EVENT_DISABLE_TIMING = 2,
	CUDA_HOST_REGISTER_PORTABLE = 1, /* page-locked for every context of the process */
};

typedef uint64_t cuda_ptr; /* CUdeviceptr */
typedef int cuda_device;   /* CUdevice */
typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;

struct gpuio_cuda {
	void *handle;
	int (*init)(unsigned flags);
	int (*driver_get_version)(int *version);
	int (*get_error_name)(int code, const char **name);
	int (*get_error_string)(int code, const char **text);
	int (*device_get_count)(int *count);
	int (*device_get)(cuda_device *device, int ordinal);
	int (*device_get_name)(char *name, int length, cuda_device device);
	int (*device_get_uuid)(unsigned char uuid[16], cuda_device device);
	int (*device_get_pci_bus_id)(char *id, int length, cuda_device device);
	int (*device_total_mem)(size_t *bytes, cuda_device device);
	int (*device_get_attribute)(int *value, int attribute, cuda_device device);
	int (*primary_ctx_retain)(cuda_context *context, cuda_device device);
	int (*primary_ctx_release)(cuda_device device);
	int (*primary_ctx_get_state)(cuda_device device, unsigned *flags, int *active);
	int (*ctx_set_current)(cuda_context context);
	int (*mem_alloc)(cuda_ptr *address, size_t bytes);
	int (*mem_free)(cuda_ptr address);
	int (*mem_host_register)(void *host, size_t bytes, unsigned flags);
	int (*mem_host_unregister)(void *host);
	int (*memcpy_to_device)(cuda_ptr to, const void *from, size_t bytes);
	int (*memcpy_to_host)(void *to, cuda_ptr from, size_t bytes);
	int (*memcpy_to_device_async)(cuda_ptr to, const void *from, size_t bytes, cuda_stream stream);
	int (*memcpy_to_host_async)(void *to, cuda_ptr from, size_t bytes, cuda_stream stream);
	int (*memset_bytes)(cuda_ptr to, unsigned char value, size_t bytes);
	int (*stream_create)(cuda_stream *stream, unsigned flags);
	int (*stream_destroy)(cuda_stream stream);
	int (*stream_synchronize)(cuda_stream stream);
	int (*event_create)(cuda_event *event, unsigned flags);
	int (*event_destroy)(cuda_event event);
	int (*event_record)(cuda_event event, cuda_stream stream);
	int (*event_query)(cuda_event event);
	int (*event_synchronize)(cuda_event event);
	int (*event_elapsed_time)(float *milliseconds, cuda_event from, cuda_event to);
	int (*module_load_data)(cuda_module *module, const void *image);
	int (*module_unload)(cuda_module module);
	int (*module_get_function)(cuda_function *function, cuda_module module, const char *name);
	int (*launch_kernel)(cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
			     unsigned block_y, unsigned block_z, unsigned shared_bytes, cuda_stream stream, void **params,
			     void **extra);
};

/* Opens `library`, else $GPUIO_LIBCUDA, else libcuda.so.1, and initialises the driver; makes no context. -ELIBACC when it cannot be
 * opened or lacks a function, else as gpuio_cuda_say. */
int gpuio_cuda_open(struct gpuio_cuda *cuda, const char *library, struct gpuio_why *why);
void gpuio_cuda_close(struct gpuio_cuda *cuda);
/* Puts a failed call into words, with the remedy where one is known: "cuMemAlloc of 4096 bytes on GPU 0: CUDA_ERROR_... (text): do".
 * 0 for CUDA_SUCCESS (why stays as it is), else the -errno that is nearest. */
int gpuio_cuda_say(const struct gpuio_cuda *cuda, int code, struct gpuio_why *why, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
