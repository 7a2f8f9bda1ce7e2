/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers: pinning, the start barrier over many windows, the stop flag set by another thread. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "fixture.h"

static int allowed_cpu(void)
{
	cpu_set_t set;

	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			return i;
	return -1;
}

static void many_windows(void)
{
	int32_t cpus[4] = {-1, 0, -1, 0};
	struct gpuio_worker_result parts[4];
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	cpus[1] = cpus[3] = allowed_cpu();
	f.spec.jobs = 4;
	f.spec.cpus = cpus;
	f.spec.verify = 1;
	run = fixture_run(&f);
	for (int i = 0; i < 100; i++) {
		struct gpuio_window w = fixture_window(run, 41);

		CHECK_EQ(w.ios, 41);
		CHECK_EQ(w.bad, 0);
	}
	gpuio_worker_results(run, parts);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(parts[i].cpu, cpus[i]);
		for (int k = 0; k < i; k++)
			CHECK(parts[i].tid != parts[k].tid);
	}
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* The stream of offsets goes on where the last window ended: two halves write what one whole would. */
static void windows_continue_the_stream(void)
{
	uint64_t offsets[256];
	uint8_t ops[256], written[256] = {0};
	unsigned char block[4096];
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	f.spec.read_percent = 0;
	CHECK_EQ(gpuio_offsets(&f.spec, 0, 256, offsets, ops), 0);
	for (int i = 0; i < 100; i++)
		written[offsets[i] / 4096] = 1;
	fixture_lay_out(f.fd, 1 << 20, 8);
	run = fixture_run(&f);
	fixture_window(run, 60);
	fixture_window(run, 40);
	CHECK_EQ(gpuio_close(run), 0);
	for (int b = 0; b < 256; b++) {
		CHECK_EQ(pread(f.fd, block, sizeof(block), b * 4096), sizeof(block));
		CHECK_EQ(gpuio_pattern_check(block, sizeof(block), (uint64_t)b * 4096, 7, NULL) == 0, written[b]);
	}
	fixture_close(&f);
}

static void *set_soon(void *flag)
{
	usleep(20000);
	__atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void stop_flag(void)
{
	uint32_t stop = 0;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	pthread_t thread;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "libaio";
	f.spec.jobs = 2;
	f.spec.depth = 4;
	f.spec.stop = &stop;
	run = fixture_run(&f);
	CHECK_EQ(pthread_create(&thread, NULL, set_soon, &stop), 0);
	w = fixture_window(run, UINT64_C(1) << 40); /* hours, if nothing stopped it */
	pthread_join(thread, NULL);
	CHECK_EQ(w.stopped, 1);
	CHECK(w.ios > 0 && w.ios < UINT64_C(1) << 40);
	CHECK_EQ(w.errors, 0);
	CHECK_EQ(gpuio_lat(run)->count, w.ios);
	/* Still set: nothing is issued. Cleared: all is. */
	w = fixture_window(run, 100);
	CHECK_EQ(w.ios, 0);
	CHECK_EQ(w.stopped, 1);
	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	w = fixture_window(run, 100);
	CHECK_EQ(w.ios, 100);
	CHECK_EQ(w.stopped, 0);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

int main(void)
{
	many_windows();
	windows_continue_the_stream();
	stop_flag();
	return 0;
}
