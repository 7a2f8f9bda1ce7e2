/* SPDX-License-Identifier: Apache-2.0 */
/* usrbio.h - 3FS's client library, opened at run time; declarations of our own, of what its releases have in common. */
#ifndef GPUIO_DL_USRBIO_H
#define GPUIO_DL_USRBIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "gpuio.h"

#define USRBIO_ENV "GPUIO_USRBIO"
#define USRBIO_MOUNT_BYTES 256
#define USRBIO_ANY_NODE (-1)
#define USRBIO_FORBID_HOLES UINT64_C(2) /* a read that meets a hole fails instead of returning zeros */

/* Memory shared with the daemon: where bytes end (reads) or begin (writes). */
struct usrbio_iov {
	uint8_t *base;
	void *handle;
	char id[16];
	char mount[USRBIO_MOUNT_BYTES];
	size_t bytes, block_bytes;
	int node;
};

/* A ring, of reads or of writes, in shared memory of its own. */
struct usrbio_ior {
	struct usrbio_iov iov;
	void *handle;
	char mount[USRBIO_MOUNT_BYTES];
	bool reads;
	int io_depth, priority, timeout_ms;
	uint64_t flags;
};

/* Room for fields that a newer release may add at the end. */
union usrbio_iov_room {
	struct usrbio_iov iov;
	unsigned char room[1024];
};

union usrbio_ior_room {
	struct usrbio_ior ior;
	unsigned char room[2048];
};

struct usrbio_cqe {
	int32_t index, reserved;
	int64_t result; /* bytes, or minus a status code of 3FS, which is no errno */
	const void *cookie;
};

struct gpuio_usrbio_lib {
	void *handle;
	bool (*is_3fs)(int fd);
	/* Length of the mount point + 1, which was stored if it is at most size; -1 = the path is on no 3FS. */
	int (*mount_point)(char *mount, int size, const char *path);
	int (*iov_create)(struct usrbio_iov *iov, const char *mount, size_t bytes, size_t block_bytes, int node);
	void (*iov_destroy)(struct usrbio_iov *iov);
	/* io_depth: requests that the daemon takes up at a time: 0 = all there are, -n = at most n, n = exactly n. */
	int (*ior_create)(struct usrbio_ior *ior, const char *mount, int entries, bool reads, int io_depth, int timeout_ms, int node,
			  uint64_t flags);
	void (*ior_destroy)(struct usrbio_ior *ior);
	int (*reg_fd)(int fd, uint64_t flags); /* a number <= 0 that stands for the file; a positive errno */
	void (*dereg_fd)(int fd);
	int (*prepare)(const struct usrbio_ior *ior, const struct usrbio_iov *iov, bool read, void *buf, int fd, size_t offset,
		       uint64_t bytes, const void *cookie);
	int (*submit)(const struct usrbio_ior *ior);
	/* The deadline is of CLOCK_REALTIME. */
	int (*wait)(const struct usrbio_ior *ior, struct usrbio_cqe *cqes, int room, int least, const struct timespec *deadline);
};

/* Opens `library`, else $GPUIO_USRBIO, else libhf3fs_api_shared.so; it stays in the process. -ELIBACC when it is missing or lacks a
 * function. */
int gpuio_usrbio_lib_open(struct gpuio_usrbio_lib *lib, const char *library, struct gpuio_why *why);
void gpuio_usrbio_lib_close(struct gpuio_usrbio_lib *lib);

#endif
