/* SPDX-License-Identifier: Apache-2.0 */
/* spdk.h - a namespace that SPDK drives, as the engine sees it. */
#ifndef GPUIO_SPDK_H
#define GPUIO_SPDK_H

#include <pthread.h>

#include "dl/spdk.h"
#include "gpuio.h"

struct gpuio_spdk {
	struct gpuio_spdk_lib lib;
	struct gpuio_spdk_info info;
	void *controller, *ns;
	pthread_mutex_t lock; /* of what follows: transfers outside of runs */
	void *qpair, *bounce;
	uint32_t bounce_bytes;
	int result; /* of the one command under way */
	bool over, broken;
	/* Fabrics end a connection whose host is silent: the admin queue is looked at from time to time. */
	pthread_mutex_t keeper_lock;
	pthread_cond_t keeper_wake;
	pthread_t keeper;
	int has_keeper, leave;
};

/* -errno of a completion, 0 = success. */
int gpuio_spdk_status(const unsigned char *completion);

#endif
