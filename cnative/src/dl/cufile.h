/* SPDX-License-Identifier: Apache-2.0 */
/* cufile.h - the part of NVIDIA's libcufile that is called here, as pointers found at run time; prototypes and layouts as the
 * public cuFile API reference gives them. */
#ifndef GPUIO_DL_CUFILE_H
#define GPUIO_DL_CUFILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "gpuio.h"

#define CUFILE_BASE_ERROR 5000 /* codes of the library lie above it */
#define CUFILE_CUDA_DRIVER_ERROR 5011
#define CUFILE_HANDLE_TYPE_FD 1
#define CUFILE_BATCH 1
#define CUFILE_READ 0
#define CUFILE_WRITE 1
#define CUFILE_COMPLETE 0x10
#define CUFILE_CANCELED 0x08

struct cufile_error {
	int32_t code; /* 0 or 50xx */
	int32_t cuda; /* CUresult, when the code is CUFILE_CUDA_DRIVER_ERROR */
};

struct cufile_descriptor {
	int32_t type;
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
};

struct cufile_batch_io {
	int32_t mode;
	struct {
		void *base;
		int64_t file_offset, base_offset;
		size_t size;
	} batch;
	void *file;
	int32_t opcode;
	void *cookie;
};

struct cufile_batch_event {
	void *cookie;
	int32_t status;
	size_t moved;
};

struct cufile_properties {
	uint32_t nvfs_major, nvfs_minor;
	size_t poll_threshold_kb, max_direct_kb;
	uint32_t status_flags, control_flags;
	uint32_t feature_flags, max_cache_kb, per_buffer_cache_kb, max_pinned_kb, max_batch, max_batch_timeout_ms;
};

struct gpuio_cufile_lib {
	void *handle;
	struct cufile_error (*driver_open)(void);
	struct cufile_error (*driver_close)(void);
	long (*use_count)(void);
	struct cufile_error (*properties)(struct cufile_properties *properties);
	struct cufile_error (*handle_register)(void **file, struct cufile_descriptor *descriptor);
	void (*handle_deregister)(void *file);
	struct cufile_error (*buf_register)(const void *base, size_t bytes, int flags);
	struct cufile_error (*buf_deregister)(const void *base);
	ssize_t (*read)(void *file, void *base, size_t size, off_t file_offset, off_t base_offset);
	ssize_t (*write)(void *file, const void *base, size_t size, off_t file_offset, off_t base_offset);
	/* From here on NULL where the library is too old. */
	struct cufile_error (*batch_setup)(void **batch, unsigned n);
	struct cufile_error (*batch_submit)(void *batch, unsigned n, struct cufile_batch_io *ios, unsigned flags);
	struct cufile_error (*batch_status)(void *batch, unsigned min, unsigned *n, struct cufile_batch_event *events,
					    struct timespec *timeout);
	struct cufile_error (*batch_cancel)(void *batch);
	void (*batch_destroy)(void *batch);
	struct cufile_error (*read_async)(void *file, void *base, size_t *size, off_t *file_offset, off_t *base_offset,
					  ssize_t *moved, void *stream);
	struct cufile_error (*write_async)(void *file, void *base, size_t *size, off_t *file_offset, off_t *base_offset,
					   ssize_t *moved, void *stream);
	struct cufile_error (*stream_register)(void *stream, unsigned flags);
	struct cufile_error (*stream_deregister)(void *stream);
	struct cufile_error (*version)(int *version);
	struct cufile_error (*set_stats_level)(int level);
	struct cufile_error (*stats_start)(void);
	struct cufile_error (*stats_l1)(void *stats);
	struct cufile_error (*stats_l3)(void *stats);
};

/* Opens `library`, else $GPUIO_CUFILE, else libcufile.so.0. -ELIBACC when it cannot be opened or lacks what every release has. */
int gpuio_cufile_lib_open(struct gpuio_cufile_lib *lib, const char *library, struct gpuio_why *why);
void gpuio_cufile_lib_close(struct gpuio_cufile_lib *lib);

#endif
