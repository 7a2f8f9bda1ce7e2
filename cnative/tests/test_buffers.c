/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "fixture.h"

#define MIB (UINT64_C(1) << 20)

/* VmRSS of this process in bytes: the kernel's word on what is really backed. */
static uint64_t resident(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long long kib = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %llu kB", &kib) == 1)
			break;
	fclose(f);
	return kib * 1024;
}

static void growing(void)
{
	struct gpuio_pool *pool = gpuio_pool_new();
	struct gpuio_pool_info info, again;
	uint64_t before = resident();
	struct gpuio_why why;

	CHECK(pool);
	gpuio_pool_describe(pool, &info);
	CHECK(info.base == NULL && info.bytes == 0);
	CHECK_EQ(gpuio_pool_reserve(pool, 33 * MIB, &why), 0);
	gpuio_pool_describe(pool, &info);
	CHECK_EQ((uintptr_t)info.base % (2 * MIB), 0);
	CHECK_EQ(info.bytes, 34 * MIB);
	CHECK(info.huge_bytes <= info.bytes);
	CHECK(resident() >= before + 33 * MIB); /* prefaulted */
	memset(info.base, 0x5a, info.bytes);
	CHECK_EQ(gpuio_pool_reserve(pool, MIB, &why), 0); /* never shrinks */
	gpuio_pool_describe(pool, &again);
	CHECK(again.base == info.base && again.bytes == info.bytes);
	CHECK_EQ(gpuio_pool_reserve(pool, 64 * MIB, &why), 0);
	gpuio_pool_describe(pool, &again);
	CHECK_EQ(again.bytes, 64 * MIB);
	CHECK_EQ(gpuio_pool_reserve(pool, UINT64_C(1) << 60, &why), -ENOMEM);
	CHECK(mentions(&why, "1152921504606846976 bytes of buffers"));
	gpuio_pool_free(pool);
	CHECK(resident() < before + 16 * MIB);
	gpuio_pool_free(NULL);
}

static void one_run_at_a_time(void)
{
	struct fixture f;
	struct gpuio_run *run, *second;

	fixture_open(&f, MIB);
	run = fixture_run(&f);
	CHECK_EQ(gpuio_open(&f.spec, &second, &f.why), -EBUSY);
	CHECK(mentions(&f.why, "in use by another run"));
	CHECK(second == NULL);
	CHECK_EQ(gpuio_pool_reserve(f.pool, 512 * MIB, &f.why), -EBUSY);
	CHECK(mentions(&f.why, "cannot grow"));
	CHECK_EQ(gpuio_pool_reserve(f.pool, 4096, &f.why), 0);
	CHECK_EQ(gpuio_close(run), 0);
	run = fixture_run(&f);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

int main(void)
{
	growing();
	one_run_at_a_time();
	return 0;
}
