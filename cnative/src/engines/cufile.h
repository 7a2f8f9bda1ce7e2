/* SPDX-License-Identifier: Apache-2.0 */
/* cufile.h - what the three cuFile engines share: the registered file and buffers, and how results are told. */
#ifndef GPUIO_ENGINES_CUFILE_H
#define GPUIO_ENGINES_CUFILE_H

#include <stdbool.h>

#include "dl/cufile.h"

struct cufile_target {
	struct gpuio_cufile_lib lib;
	int fd;        /* its own: cuFile registers a descriptor once */
	void *file;    /* NULL = not registered */
	char *base;    /* the worker's buffers, one after another */
	uint64_t stride;
	unsigned registered; /* how many are, each by itself */
};

/* The library must be the one whose driver this process opened (gpuio_cufile_open). Registers the file, and the buffers when the knob
 * fixed_buffers asks for it. 0, -errno or -50xx with job->why; gpuio_cufile_target_close is to follow in any case. */
int gpuio_cufile_target_open(struct cufile_target *target, struct gpuio_job *job);
void gpuio_cufile_target_close(struct cufile_target *target);
int gpuio_cufile_probe(const char *library, struct gpuio_why *why);

/* What cuFileRead and its like return: bytes, -1 with errno, or minus a code of the library's own, which is kept. */
static inline int64_t cufile_result(ssize_t returned, int error)
{
	if (returned != -1)
		return returned;
	return error ? -error : -5;
}

#endif
