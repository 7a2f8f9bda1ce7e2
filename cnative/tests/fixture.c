/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <fcntl.h>
#include <unistd.h>

#define PIECE (UINT64_C(1) << 20)

void fixture_lay_out(int fd, uint64_t bytes, uint64_t seed)
{
	unsigned char *piece = malloc(PIECE);

	CHECK(piece);
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		uint64_t n = bytes - at < PIECE ? bytes - at : PIECE;

		gpuio_pattern_fill(piece, n, at, seed);
		CHECK_EQ(pwrite(fd, piece, n, (off_t)at), n);
	}
	free(piece);
}

void fixture_open(struct fixture *f, uint64_t bytes)
{
	char name[] = "target-XXXXXX";

	memset(f, 0, sizeof(*f));
	CHECK_EQ(gpuio_clock_init(&f->clock, -1, &f->why), 0);
	f->pool = gpuio_pool_new();
	CHECK(f->pool);
	f->fd = mkstemp(name);
	CHECK(f->fd >= 0);
	unlink(name);
	fixture_lay_out(f->fd, bytes, 7);
	f->spec = (struct gpuio_spec){
		.engine = "psync",
		.fd = f->fd,
		.jobs = 1,
		.depth = 1,
		.block = 4096,
		.submit_batch = 1,
		.reap_batch = 1,
		.order = GPUIO_RANDOM,
		.read_percent = 100,
		.region_bytes = bytes,
		.seed = 42,
		.pattern_seed = 7,
		.timeout_ns = UINT64_C(60000000000),
		.clock = &f->clock,
		.pool = f->pool,
	};
}

void fixture_close(struct fixture *f)
{
	gpuio_pool_free(f->pool);
	close(f->fd);
}

struct gpuio_run *fixture_run(struct fixture *f)
{
	struct gpuio_run *run;
	int rc = gpuio_open(&f->spec, &run, &f->why);

	if (rc) {
		fprintf(stderr, "gpuio_open: %d, %s\n", rc, f->why.text);
		exit(1);
	}
	return run;
}

struct gpuio_window fixture_window(struct gpuio_run *run, uint64_t ios)
{
	struct gpuio_window window;
	struct gpuio_why why;
	int rc = gpuio_window(run, ios, &window, &why);

	if (rc) {
		fprintf(stderr, "gpuio_window: %d, %s\n", rc, why.text);
		exit(1);
	}
	return window;
}

bool mentions(const struct gpuio_why *why, const char *words)
{
	if (strstr(why->text, words))
		return true;
	fprintf(stderr, "'%s' is not in '%s'\n", words, why->text);
	return false;
}
