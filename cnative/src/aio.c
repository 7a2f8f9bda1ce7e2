/* SPDX-License-Identifier: Apache-2.0 */
#include "aio.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static int setup(unsigned depth, aio_context_t *id)
{
	*id = 0;
	return syscall(SYS_io_setup, depth, id) < 0 ? -errno : 0;
}

void gpuio_aio_init(struct gpuio_aio *aio)
{
	pthread_mutex_init(&aio->lock, NULL);
	aio->owner = getpid();
	aio->n = 0;
}

/* Under the lock. A fork has the list, but none of the contexts. */
static void own(struct gpuio_aio *aio)
{
	if (aio->owner == getpid())
		return;
	aio->owner = getpid();
	aio->n = 0;
}

/* Under the lock. The smallest that will do. */
static struct gpuio_aio_context take_kept(struct gpuio_aio *aio, unsigned depth)
{
	struct gpuio_aio_context found = {0, 0};
	unsigned best = aio->n;

	for (unsigned i = 0; i < aio->n; i++)
		if (aio->kept[i].depth >= depth && (best == aio->n || aio->kept[i].depth < aio->kept[best].depth))
			best = i;
	if (best < aio->n) {
		found = aio->kept[best];
		aio->kept[best] = aio->kept[--aio->n];
	}
	return found;
}

int gpuio_aio_take(struct gpuio_aio *aio, unsigned depth, struct gpuio_aio_context *context)
{
	int rc;

	pthread_mutex_lock(&aio->lock);
	own(aio);
	*context = take_kept(aio, depth);
	pthread_mutex_unlock(&aio->lock);
	if (context->id)
		return 0;
	rc = setup(depth, &context->id);
	if (rc == -EAGAIN) { /* the limit is reached: not for the sake of what is only kept */
		gpuio_aio_close(aio);
		rc = setup(depth, &context->id);
	}
	context->depth = depth;
	return rc;
}

void gpuio_aio_give_back(struct gpuio_aio *aio, struct gpuio_aio_context context)
{
	pthread_mutex_lock(&aio->lock);
	own(aio);
	if (aio->n < GPUIO_AIO_KEPT) {
		aio->kept[aio->n++] = context;
		context.id = 0;
	}
	pthread_mutex_unlock(&aio->lock);
	gpuio_aio_end(context);
}

void gpuio_aio_end(struct gpuio_aio_context context)
{
	if (context.id)
		syscall(SYS_io_destroy, context.id);
}

void gpuio_aio_close(struct gpuio_aio *aio)
{
	struct gpuio_aio_context context;

	do {
		pthread_mutex_lock(&aio->lock);
		own(aio);
		context = take_kept(aio, 0);
		pthread_mutex_unlock(&aio->lock);
		gpuio_aio_end(context);
	} while (context.id);
}
