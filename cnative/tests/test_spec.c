/* SPDX-License-Identifier: Apache-2.0 */
/* Every spec that cannot work is refused before anything starts, with the numbers in the sentence. */
#include <errno.h>
#include <unistd.h>

#include "fixture.h"

static struct fixture f;
static struct gpuio_spec good;

static void refused(int code, const char *words)
{
	struct gpuio_run *run = (struct gpuio_run *)&f;

	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), code);
	CHECK(run == NULL);
	CHECK(mentions(&f.why, words));
	CHECK_EQ(gpuio_open(&f.spec, &run, NULL), code);
	f.spec = good;
}

#define REFUSED(field, value, code, words)                                                                                   \
	do {                                                                                                                 \
		f.spec.field = value;                                                                                        \
		refused(code, words);                                                                                        \
	} while (0)

int main(void)
{
	int32_t cpus[] = {100000};
	struct gpuio_run *run;

	fixture_open(&f, 1 << 20);
	good = f.spec;
	REFUSED(engine, "warp", -ENOENT, "no engine named warp");
	REFUSED(engine, NULL, -ENOENT, "no engine named");
	REFUSED(jobs, 0, -EINVAL, "0 jobs");
	REFUSED(jobs, 5000, -EINVAL, "5000 jobs");
	REFUSED(jobs, 257, -EINVAL, "not one for each of 257 workers");
	REFUSED(depth, 0, -EINVAL, "queue depth 0");
	REFUSED(depth, 2, -EINVAL, "synchronous");
	REFUSED(depth, 1u << 21, -EINVAL, "queue depth 2097152");
	REFUSED(block, 0, -EINVAL, "block of 0 bytes");
	REFUSED(block, (1u << 30) + 1, -EINVAL, "block of 1073741825 bytes");
	REFUSED(block, 2u << 20, -EINVAL, "holds 0 blocks");
	REFUSED(submit_batch, 0, -EINVAL, "submit batch 0");
	REFUSED(reap_batch, 2, -EINVAL, "reap batch 2");
	REFUSED(order, 3, -EINVAL, "order 3");
	REFUSED(read_percent, 101, -EINVAL, "101 % reads");
	REFUSED(sync, 3, -EINVAL, "sync mode 3");
	REFUSED(sync, GPUIO_SYNC_EVERY, -EINVAL, "number of writes");
	REFUSED(region_offset, UINT64_MAX, -EINVAL, "ends beyond any file");
	REFUSED(region_bytes, UINT64_C(1) << 63, -EINVAL, "ends beyond any file");
	REFUSED(fd, -1, -EBADF, "file descriptor -1 is not open");
	REFUSED(fd, 9999, -EBADF, "file descriptor 9999 is not open");
	REFUSED(clock, NULL, -EINVAL, "clock and a buffer pool");
	REFUSED(pool, NULL, -EINVAL, "clock and a buffer pool");
	REFUSED(cpus, cpus, -EINVAL, "pinned to CPU 100000");
	f.spec.read_percent = 50;
	REFUSED(block, 1000, -EINVAL, "writes of 1000 bytes");
	f.spec.read_percent = 0;
	REFUSED(region_offset, 100, -EINVAL, "from offset 100");
	f.spec.order = GPUIO_ZIPF;
	REFUSED(zipf_theta, -1.0, -EINVAL, "theta -1");
	f.spec.knobs = GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_MERGED_WAIT | GPUIO_KNOB_REQUIRE;
	refused(-ENOTSUP, "psync does not have: fixed_buffers, merged_wait");

	/* Without REQUIRE the same is only recorded. */
	f.spec.knobs = GPUIO_KNOB_REGISTERED_FILES;
	run = fixture_run(&f);
	CHECK_EQ(gpuio_effective_knobs(run), 0);
	gpuio_knob_reason(run, &f.why);
	CHECK(mentions(&f.why, "psync does not have: registered_files"));
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(gpuio_close(NULL), 0);
	fixture_close(&f);
	return 0;
}
