/* SPDX-License-Identifier: Apache-2.0 */
/* liburing.h - the part of liburing that the engines call, as pointers found at run time. */
#ifndef GPUIO_DL_LIBURING_H
#define GPUIO_DL_LIBURING_H

#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <signal.h>
#include <stddef.h>
#include <sys/uio.h>

#include "gpuio.h"

/* Values of the kernel's ABI that older headers do not know. */
#ifndef IORING_SETUP_SQE128
#define IORING_SETUP_SQE128 (1U << 10)
#define IORING_SETUP_CQE32 (1U << 11)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1U << 16)
#endif
#ifndef IORING_FEAT_SQPOLL_NONFIXED
#define IORING_FEAT_SQPOLL_NONFIXED (1U << 7)
#endif
#ifndef IORING_FEAT_EXT_ARG
#define IORING_FEAT_EXT_ARG (1U << 8)
#endif
#ifndef IORING_ENTER_SQ_WAKEUP
#define IORING_ENTER_SQ_WAKEUP (1U << 1)
#endif
#ifndef IORING_SQ_NEED_WAKEUP
#define IORING_SQ_NEED_WAKEUP (1U << 0)
#endif

/*
 * The head of liburing's struct io_uring. It is part of the ABI of liburing.so.2, since liburing's own header inlines accesses to
 * it into every program; set-up checks it against what the kernel said (gpuio_liburing_fits), and what lies behind it is left
 * to the library.
 */
struct io_uring_sq_view {
	unsigned *khead, *ktail, *kring_mask, *kring_entries, *kflags, *kdropped, *array;
	struct io_uring_sqe *sqes;
	unsigned sqe_head, sqe_tail;
	size_t ring_sz;
	void *ring_ptr;
	unsigned reserved[4];
};

struct io_uring_cq_view {
	unsigned *khead, *ktail, *kring_mask, *kring_entries, *kflags, *koverflow;
	struct io_uring_cqe *cqes;
	size_t ring_sz;
	void *ring_ptr;
	unsigned reserved[4];
};

struct io_uring {
	struct io_uring_sq_view sq;
	struct io_uring_cq_view cq;
	unsigned flags;
	int ring_fd;
	unsigned features;
	unsigned char room[4096]; /* the library's own struct is about 220 bytes in all */
};

struct gpuio_liburing {
	void *handle;
	int (*queue_init_params)(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
	void (*queue_exit)(struct io_uring *ring);
	int (*submit)(struct io_uring *ring);
	int (*submit_and_wait)(struct io_uring *ring, unsigned wait);
	int (*submit_and_get_events)(struct io_uring *ring);
	int (*submit_and_wait_timeout)(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned wait,
				       struct __kernel_timespec *timeout, sigset_t *mask);
	int (*register_buffers)(struct io_uring *ring, const struct iovec *iovecs, unsigned n);
	int (*register_files)(struct io_uring *ring, const int *files, unsigned n);
};

/* Opens `library`, else $GPUIO_LIBURING, else liburing-ffi.so.2. -ELIBACC when it cannot be opened or lacks a function. */
int gpuio_liburing_open(struct gpuio_liburing *lib, const char *library, struct gpuio_why *why);
void gpuio_liburing_close(struct gpuio_liburing *lib);
/* 0 when the library laid the ring out as the struct above says, else -ELIBACC. */
int gpuio_liburing_fits(const struct io_uring *ring, const struct io_uring_params *params, struct gpuio_why *why);

#endif
