/* SPDX-License-Identifier: Apache-2.0 */
/* liburing.h - the part of liburing that the engine calls, as pointers found at run time. */
#ifndef GPUIO_DL_LIBURING_H
#define GPUIO_DL_LIBURING_H

#include <linux/io_uring.h>
#include <sys/uio.h>

#include "gpuio.h"

struct io_uring; /* opaque: only liburing looks inside */

#define LIBURING_RING_BYTES 4096 /* room for a struct io_uring; the library's is about 220 bytes */

struct gpuio_liburing {
	void *handle;
	int (*queue_init_params)(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
	void (*queue_exit)(struct io_uring *ring);
	struct io_uring_sqe *(*get_sqe)(struct io_uring *ring);
	int (*submit)(struct io_uring *ring);
	int (*submit_and_wait)(struct io_uring *ring, unsigned wait);
	int (*submit_and_get_events)(struct io_uring *ring);
	unsigned (*peek_batch_cqe)(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned count);
	void (*cq_advance)(struct io_uring *ring, unsigned n);
	int (*register_buffers)(struct io_uring *ring, const struct iovec *iovecs, unsigned n);
	int (*register_files)(struct io_uring *ring, const int *files, unsigned n);
};

/* Opens `library`, else $GPUIO_LIBURING, else liburing-ffi.so.2. -ELIBACC when it cannot be opened or lacks a function. */
int gpuio_liburing_open(struct gpuio_liburing *lib, const char *library, struct gpuio_why *why);
void gpuio_liburing_close(struct gpuio_liburing *lib);

#endif
