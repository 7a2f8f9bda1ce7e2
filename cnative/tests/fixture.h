/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests share: a check that names its place, a target file, a spec that works. */
#ifndef GPUIO_TESTS_FIXTURE_H
#define GPUIO_TESTS_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuio.h"

#define CHECK(what)                                                                                                          \
	do {                                                                                                                 \
		if (!(what)) {                                                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what);                                 \
			exit(1);                                                                                             \
		}                                                                                                            \
	} while (0)

#define CHECK_EQ(a, b)                                                                                                       \
	do {                                                                                                                 \
		long long left = (long long)(a), right = (long long)(b);                                                     \
		if (left != right) {                                                                                         \
			fprintf(stderr, "%s:%d: %s = %lld, %s = %lld\n", __FILE__, __LINE__, #a, left, #b, right);           \
			exit(1);                                                                                             \
		}                                                                                                            \
	} while (0)

struct fixture {
	struct gpuio_clock clock;
	struct gpuio_pool *pool;
	struct gpuio_spec spec; /* psync, one job, 4 KiB random reads over the whole file */
	struct gpuio_why why;
	int fd;
};

/* A file of `bytes` in the working directory, already unlinked, filled with the pattern of seed 7. */
void fixture_open(struct fixture *f, uint64_t bytes);
void fixture_close(struct fixture *f);
void fixture_lay_out(int fd, uint64_t bytes, uint64_t seed);
struct gpuio_run *fixture_run(struct fixture *f);                   /* gpuio_open that must work */
struct gpuio_window fixture_window(struct gpuio_run *run, uint64_t ios); /* gpuio_window that must work */
bool mentions(const struct gpuio_why *why, const char *words);

#endif
