/* SPDX-License-Identifier: Apache-2.0 */
/* aio.h - contexts of Linux native asynchronous I/O by its own system calls, kept for later runs: the kernel takes tens of
 * milliseconds to end one. */
#ifndef GPUIO_AIO_H
#define GPUIO_AIO_H

#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/types.h>

#define GPUIO_AIO_KEPT 8u /* contexts count against fs.aio-max-nr, which is everybody's */

struct gpuio_aio_context {
	aio_context_t id; /* 0 = none */
	unsigned depth;
};

/* Those nobody uses; of one process, whatever was forked from it. */
struct gpuio_aio {
	pthread_mutex_t lock;
	pid_t owner;
	unsigned n;
	struct gpuio_aio_context kept[GPUIO_AIO_KEPT];
};

void gpuio_aio_init(struct gpuio_aio *aio);
/* A context for `depth` requests or more: a kept one, else a new one. 0 or -errno. From any thread. */
int gpuio_aio_take(struct gpuio_aio *aio, unsigned depth, struct gpuio_aio_context *context);
/* With nothing in flight. From any thread. */
void gpuio_aio_give_back(struct gpuio_aio *aio, struct gpuio_aio_context context);
/* Ends one, waiting for what is in flight. */
void gpuio_aio_end(struct gpuio_aio_context context);
/* Ends all that are kept. */
void gpuio_aio_close(struct gpuio_aio *aio);

#endif
