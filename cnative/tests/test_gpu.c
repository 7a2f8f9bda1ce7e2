/* SPDX-License-Identifier: Apache-2.0 */
/* The way into GPU memory, with a stand-in for the CUDA driver (standin/libcuda.h): order, ends, errors; no GPU is here. */
#include "fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include "standin/libcuda.h"

#define MIB (UINT64_C(1) << 20)
#define LIBRARY "./standin_libcuda.so"

static struct standin_state look(void)
{
	static void (*state)(struct standin_state *);
	struct standin_state now;

	if (!state) {
		void *handle = dlopen(LIBRARY, RTLD_NOW);

		CHECK(handle);
		*(void **)&state = dlsym(handle, "standin_cuda_state");
		CHECK(state);
	}
	state(&now);
	return now;
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static const int32_t first_gpu[16], two_gpus[4] = {0, 0, 1, 1};

static void open_gpu(struct fixture *f, const char *engine, uint32_t depth)
{
	fixture_open(f, 4 * MIB);
	f->spec.engine = engine;
	f->spec.depth = depth;
	f->spec.gpu.ordinals = first_gpu;
	f->spec.gpu.library = LIBRARY;
	f->spec.gpu.wait = GPUIO_WAIT_SPIN;
}

static void nothing_left(void)
{
	struct standin_state s = look();

	CHECK_EQ(s.allocations, 0);
	CHECK_EQ(s.streams, 0);
	CHECK_EQ(s.events, 0);
	CHECK_EQ(s.modules, 0);
	CHECK_EQ(s.pinned, 0);
	for (int i = 0; i < STANDIN_GPUS; i++)
		CHECK_EQ(s.contexts[i], 0);
}

/* Counts, latencies and in-flight of a window add up, whatever the engine. */
static void check_window(struct gpuio_run *run, const struct gpuio_window *w, uint64_t ios, uint64_t reads)
{
	const struct gpuio_hist *lat = gpuio_lat(run), *copy = gpuio_copy(run), *total = gpuio_total(run);

	CHECK_EQ(w->errors, 0);
	CHECK_EQ(w->ios, ios);
	CHECK_EQ(w->reads, reads);
	CHECK_EQ(lat->count, ios);
	CHECK_EQ(copy->count, ios);
	CHECK_EQ(total->count, ios);
	CHECK(total->sum_ns >= lat->sum_ns);
	CHECK(total->min_ns >= lat->min_ns);
	CHECK(w->copies >= 1 && w->copies <= ios);
	CHECK(w->total_in_flight > 0.0);
	CHECK(w->max_total >= 1);
}

static void reads_one(const char *engine, uint32_t depth, uint32_t block, uint32_t verify, uint32_t check, uint32_t streams)
{
	struct fixture f;
	struct gpuio_run *run;
	struct gpuio_window w;
	uint64_t checked, bad, first;

	open_gpu(&f, engine, depth);
	f.spec.block = block;
	f.spec.verify = verify;
	f.spec.gpu.check = check;
	f.spec.gpu.streams = streams;
	run = fixture_run(&f);
	for (int i = 0; i < 3; i++) {
		w = fixture_window(run, 200);
		check_window(run, &w, 200, 200);
		CHECK_EQ(w.verified, verify ? 200 : 0);
		CHECK_EQ(w.bad, 0);
		CHECK(w.copied_bytes >= 200 * (uint64_t)block);
	}
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK(checked > 0);
	CHECK_EQ(bad, 0);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	nothing_left();
}

static void test_reads(void)
{
	static const char *const engines[] = {"psync", "mmap", "libaio"};

	for (int e = 0; e < 3; e++) {
		uint32_t depth = e == 2 ? 8 : 1;

		reads_one(engines[e], depth, 4096, 0, GPUIO_GPU_KERNEL, 1);
		reads_one(engines[e], depth, 4096, 1, GPUIO_GPU_KERNEL, 1);
		reads_one(engines[e], depth, 4096, 1, GPUIO_GPU_COPY, 2);
		reads_one(engines[e], depth, 65536, 1, GPUIO_GPU_KERNEL, 3);
	}
	/* Sectors that lie at no 16-byte boundary of the buffer are checked by copying them back. */
	reads_one("psync", 1, 1500, 1, GPUIO_GPU_KERNEL, 1);
}

static void writes_one(const char *engine, uint32_t depth, uint32_t percent, uint32_t sync, uint32_t check)
{
	struct fixture f;
	struct gpuio_run *run;
	struct gpuio_window w;
	uint64_t checked, bad, first;

	open_gpu(&f, engine, depth);
	f.spec.read_percent = percent;
	f.spec.sync = sync;
	f.spec.sync_every = 16;
	f.spec.verify = 1;
	f.spec.gpu.check = check;
	run = fixture_run(&f);
	for (int i = 0; i < 2; i++) {
		w = fixture_window(run, 300);
		check_window(run, &w, 300, w.reads);
		CHECK(percent ? w.reads > 0 && w.writes > 0 : w.writes == 300);
		CHECK_EQ(w.verified, w.reads);
		CHECK_EQ(w.bad, 0);
		CHECK(sync == GPUIO_SYNC_NONE ? w.syncs == 0 : w.syncs > 0);
	}
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK(checked > 0);
	CHECK_EQ(bad, 0);
	CHECK_EQ(gpuio_close(run), 0);
	/* The whole file holds what belongs there: nothing was written that had not come from the GPU. */
	{
		unsigned char *all = malloc(4 * MIB);

		CHECK_EQ(pread(f.fd, all, 4 * MIB, 0), 4 * MIB);
		CHECK_EQ(gpuio_pattern_check(all, 4 * MIB, 0, 7, &first), 0);
		free(all);
	}
	fixture_close(&f);
	nothing_left();
}

static void test_writes(void)
{
	static const char *const engines[] = {"psync", "mmap", "libaio"};

	for (int e = 0; e < 3; e++) {
		uint32_t depth = e == 2 ? 8 : 1;

		writes_one(engines[e], depth, 0, GPUIO_SYNC_NONE, GPUIO_GPU_KERNEL);
		writes_one(engines[e], depth, 0, GPUIO_SYNC_EVERY, GPUIO_GPU_COPY);
		writes_one(engines[e], depth, 50, GPUIO_SYNC_END, GPUIO_GPU_KERNEL);
	}
}

/* Copies that take long run beside each other and beside the I/O; the device's part and the whole way are counted apart. */
static void test_slow_copies_and_waits(void)
{
	for (uint32_t wait = GPUIO_WAIT_SLEEP; wait <= GPUIO_WAIT_SPIN; wait++) {
		struct fixture f;
		struct gpuio_run *run;
		struct gpuio_window w;

		set("STANDIN_CUDA_DELAY_US", "300");
		open_gpu(&f, "libaio", 4);
		f.spec.gpu.wait = wait;
		f.spec.gpu.ahead = 4;
		run = fixture_run(&f);
		w = fixture_window(run, 120);
		check_window(run, &w, 120, 120);
		CHECK(w.max_total <= 8);
		CHECK(w.max_in_flight <= 4);
		CHECK(gpuio_copy(run)->min_ns >= 300000);
		CHECK(w.total_in_flight > w.mean_in_flight);
		CHECK_EQ(gpuio_close(run), 0);
		fixture_close(&f);
		set("STANDIN_CUDA_DELAY_US", NULL);
		nothing_left();
	}
}

/* Neighbours of one reap go together, and never more than was asked for when slots are going to be written. */
static void test_small_copies_go_together(void)
{
	struct fixture f;
	struct gpuio_run *run;
	struct gpuio_window w;

	open_gpu(&f, "libaio", 32);
	f.spec.submit_batch = f.spec.reap_batch = 32;
	run = fixture_run(&f);
	w = fixture_window(run, 640);
	check_window(run, &w, 640, 640);
	CHECK(w.copies <= 640 / 4);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	nothing_left();
}

static void test_two_gpus_and_no_other(void)
{
	struct fixture f;
	struct gpuio_run *run;
	struct gpuio_window w;
	struct gpuio_worker_result results[4];
	struct standin_state before, after;
	uint64_t checked, bad, first;

	set("STANDIN_CUDA_GPUS", "4");
	open_gpu(&f, "psync", 1);
	f.spec.jobs = 4;
	f.spec.gpu.ordinals = two_gpus;
	before = look();
	run = fixture_run(&f);
	after = look();
	CHECK_EQ(after.contexts[0], 1);
	CHECK_EQ(after.contexts[1], 1);
	CHECK_EQ(after.ever[2] - before.ever[2] + after.ever[3] - before.ever[3], 0);
	w = fixture_window(run, 400);
	check_window(run, &w, 400, 400);
	gpuio_worker_results(run, results);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(results[i].gpu, two_gpus[i]);
		CHECK_EQ(results[i].ios, 100);
	}
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK(checked >= 4);
	CHECK_EQ(bad, 0);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	set("STANDIN_CUDA_GPUS", NULL);
	nothing_left();
}

static void test_a_lost_copy_is_found(void)
{
	static const uint32_t checks[] = {GPUIO_GPU_KERNEL, GPUIO_GPU_COPY};

	for (int i = 0; i < 2; i++) {
		struct fixture f;
		struct gpuio_run *run;
		struct gpuio_window w;

		set("STANDIN_CUDA_LOSE", "3");
		open_gpu(&f, "psync", 1);
		f.spec.verify = 1;
		f.spec.gpu.check = checks[i];
		run = fixture_run(&f);
		w = fixture_window(run, 200);
		CHECK_EQ(w.verified, 200);
		CHECK(w.bad >= 1 && w.bad < 200);
		CHECK_EQ(w.first_bad_offset % 4096, 0);
		CHECK_EQ(gpuio_close(run), 0);
		fixture_close(&f);
		set("STANDIN_CUDA_LOSE", NULL);
	}
	nothing_left();
}

static void test_an_open_loop_ends_in_gpu_memory(void)
{
	static const char *const engines[] = {"psync", "libaio"};
	uint64_t arrivals[200];

	for (uint64_t i = 0; i < 200; i++)
		arrivals[i] = i * 100000;
	for (int e = 0; e < 2; e++) {
		for (uint32_t wait = GPUIO_WAIT_SLEEP; wait <= GPUIO_WAIT_SPIN; wait++) {
			struct fixture f;
			struct gpuio_run *run;
			struct gpuio_window w;

			open_gpu(&f, engines[e], e ? 8 : 1);
			f.spec.arrivals = arrivals;
			f.spec.n_arrivals = 200;
			f.spec.arrival_wait = f.spec.gpu.wait = wait;
			run = fixture_run(&f);
			w = fixture_window(run, 200);
			check_window(run, &w, 200, 200);
			CHECK_EQ(gpuio_lag(run)->count, 200);
			CHECK_EQ(gpuio_response(run)->count, 200);
			CHECK(gpuio_response(run)->sum_ns >= gpuio_total(run)->sum_ns);
			CHECK(w.end_ns - w.start_ns >= 199 * 100000);
			CHECK_EQ(gpuio_close(run), 0);
			fixture_close(&f);
			nothing_left();
		}
	}
}

static int failing(const char *what, const char *fail, bool at_open)
{
	struct fixture f;
	struct gpuio_run *run = NULL;
	struct gpuio_window w;
	int rc;

	set("STANDIN_CUDA_FAIL", fail);
	open_gpu(&f, "libaio", 4);
	f.spec.verify = 1;
	f.spec.read_percent = strstr(fail, "DtoHAsync") ? 0 : 100;
	rc = gpuio_open(&f.spec, &run, &f.why);
	if (at_open) {
		CHECK(rc < 0 && !run);
	} else {
		CHECK_EQ(rc, 0);
		rc = gpuio_window(run, 100, &w, &f.why);
		CHECK(rc < 0);
		CHECK_EQ(gpuio_close(run), 0);
	}
	CHECK(mentions(&f.why, what));
	set("STANDIN_CUDA_FAIL", NULL);
	fixture_close(&f);
	nothing_left();
	return rc;
}

static void test_failures_say_what_and_the_remedy(void)
{
	CHECK_EQ(failing("there is no NVIDIA GPU", "cuInit:1:100", true), -ENODEV);
	CHECK_EQ(failing("making a context on GPU 0", "cuDevicePrimaryCtxRetain:1:46", true), -EBUSY);
	CHECK_EQ(failing("lower block size", "cuMemAlloc_v2:1:2", true), -ENOMEM);
	CHECK_EQ(failing("page-locking", "cuMemHostRegister_v2:1:2", true), -ENOMEM);
	CHECK_EQ(failing("making a stream", "cuStreamCreate:1:2", true), -ENOMEM);
	CHECK_EQ(failing("making an event", "cuEventCreate:3:2", true), -ENOMEM);
	CHECK_EQ(failing("--gpuio-copy=check=copy", "cuModuleLoadData:1:222", true), -ENOTSUP);
	CHECK_EQ(failing("bytes to GPU 0", "cuMemcpyHtoDAsync_v2:20:719", false), -EIO);
	CHECK_EQ(failing("bytes from GPU 0", "cuMemcpyDtoHAsync_v2:20:719", false), -EIO);
	CHECK_EQ(failing("recording an event", "cuEventRecord:7:719", false), -EIO);
	CHECK_EQ(failing("a copy to GPU 0", "cuEventQuery:9:719", false), -EIO);
	CHECK_EQ(failing("checking data on GPU 0", "cuLaunchKernel:5:719", false), -EIO);
}

static void test_what_is_not_there(void)
{
	static const int32_t absent[] = {3}, negative[] = {-2};
	struct gpuio_run *run;
	struct fixture f;
	int32_t count;

	open_gpu(&f, "psync", 1);
	f.spec.gpu.ordinals = absent;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ENODEV);
	CHECK(mentions(&f.why, "there is no GPU 3: the CUDA driver shows 1"));
	f.spec.gpu.ordinals = negative;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "numbered from 0"));
	f.spec.gpu.ordinals = first_gpu;
	f.spec.gpu.streams = 17;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	f.spec.gpu.streams = 1;
	f.spec.gpu.ahead = 1u << 20;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	f.spec.gpu.ahead = 0;
	f.spec.gpu.library = "./no-such-libcuda.so";
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "another one (./no-such-libcuda.so)"));
	CHECK_EQ(gpuio_gpu_count("./no-such-libcuda.so", &count, &f.why), -ELIBACC);
	CHECK(mentions(&f.why, "install NVIDIA's driver"));
	CHECK_EQ(gpuio_gpu_count("libm.so.6", &count, &f.why), -ELIBACC);
	CHECK(mentions(&f.why, "lacks cuInit"));
	fixture_close(&f);
	nothing_left();
}

static void test_looking_makes_no_context(void)
{
	struct gpuio_gpu_info info;
	struct gpuio_why why;
	struct standin_state before = look(), after;
	int32_t count;

	set("STANDIN_CUDA_GPUS", "2");
	CHECK_EQ(gpuio_gpu_count(LIBRARY, &count, &why), 0);
	CHECK_EQ(count, 2);
	CHECK_EQ(gpuio_gpu_describe(LIBRARY, 1, &info, &why), 0);
	CHECK(strcmp(info.name, "stand-in GPU 1") == 0);
	CHECK(strcmp(info.bus_id, "0000:02:00.0") == 0);
	CHECK_EQ(info.uuid[15], 1);
	CHECK_EQ(gpuio_gpu_describe(LIBRARY, 2, &info, &why), -ENODEV);
	set("STANDIN_CUDA_GPUS", NULL);
	after = look();
	for (int i = 0; i < STANDIN_GPUS; i++)
		CHECK_EQ(after.ever[i], before.ever[i]);
}

/* The pool keeps what is costly from run to run, and pins anew what has moved. */
static void test_the_pool_keeps_pinned_memory(void)
{
	struct gpuio_pool_info one, two;
	struct gpuio_run *run;
	struct fixture f;

	open_gpu(&f, "libaio", 2);
	run = fixture_run(&f);
	CHECK_EQ(gpuio_close(run), 0);
	gpuio_pool_describe(f.pool, &one);
	CHECK_EQ(one.pinned_bytes, one.bytes);
	CHECK(one.pin_ns > 0 && one.map_ns > 0);
	run = fixture_run(&f);
	CHECK_EQ(look().pinned, 1);
	CHECK_EQ(gpuio_close(run), 0);
	f.spec.gpu.ordinals = NULL; /* a host run that makes the pool grow */
	f.spec.block = 4 * MIB;
	run = fixture_run(&f);
	CHECK_EQ(gpuio_close(run), 0);
	gpuio_pool_describe(f.pool, &two);
	CHECK_EQ(two.pinned_bytes, 0);
	CHECK_EQ(look().pinned, 0);
	fixture_close(&f);
	nothing_left();
}

static void test_null_copies_too(void)
{
	struct fixture f;
	struct gpuio_run *run;
	struct gpuio_window w;
	struct standin_state before, after;

	open_gpu(&f, "null", 16);
	run = fixture_run(&f);
	before = look();
	w = fixture_window(run, 1000);
	after = look();
	check_window(run, &w, 1000, 1000);
	CHECK_EQ(after.copies_in - before.copies_in, w.copies);
	CHECK_EQ(after.bytes_in - before.bytes_in, w.copied_bytes);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	nothing_left();
}

static void test_a_stop_flag_ends_a_window(void)
{
	uint32_t stop = 1;
	struct gpuio_run *run;
	struct gpuio_window w;
	struct fixture f;

	open_gpu(&f, "libaio", 4);
	f.spec.stop = &stop;
	run = fixture_run(&f);
	w = fixture_window(run, 100);
	CHECK_EQ(w.stopped, 1);
	CHECK(w.ios < 100);
	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	w = fixture_window(run, 100);
	check_window(run, &w, 100, 100);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	nothing_left();
}

static void test_failed_and_short_requests_go_nowhere(void)
{
	struct gpuio_run *run;
	struct gpuio_window w;
	struct fixture f;

	open_gpu(&f, "psync", 1);
	f.spec.region_bytes = 8 * MIB; /* twice what the file has */
	f.spec.order = GPUIO_SEQUENTIAL;
	run = fixture_run(&f);
	w = fixture_window(run, 2048);
	CHECK_EQ(w.ios, 1024);
	CHECK_EQ(w.short_ios, 1024);
	CHECK_EQ(gpuio_total(run)->count, 1024);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	nothing_left();
}

int main(void)
{
	test_looking_makes_no_context();
	test_reads();
	test_writes();
	test_slow_copies_and_waits();
	test_small_copies_go_together();
	test_two_gpus_and_no_other();
	test_a_lost_copy_is_found();
	test_an_open_loop_ends_in_gpu_memory();
	test_failures_say_what_and_the_remedy();
	test_what_is_not_there();
	test_the_pool_keeps_pinned_memory();
	test_null_copies_too();
	test_a_stop_flag_ends_a_window();
	test_failed_and_short_requests_go_nowhere();
	return 0;
}
